"""The parent of one job's processes: it ends all of them when the process that started it is gone.

`neaptide run` starts it as a program of its own (`keeping.py` is the other side), with an open line: a socket whose
other end is in the run's process and nowhere else. The line first brings the job's command. After that each byte is
a signal for the job's processes, and the line's end means that the run is gone, however it ended. Children of the job
that lose their parent become children of the keeper, so that it finds them all. It imports nothing of neaptide, starts
in a few milliseconds, and ends as the job ended.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from time import monotonic

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_SECONDS_TO_END = 5.0  # between SIGTERM and SIGKILL, when the run is gone
_LOOK_SECONDS = 0.05
_prctl = ctypes.CDLL(None).prctl


class Keeper:
    """Keeps one job.

    The job's process group is its "own", so that the terminal's signals do not reach it, or "shared" with the run; an
    "ignoring" job shares the run's group and ignores SIGINT, as background jobs of a shell do.
    """

    def __init__(self, line: int, group: str) -> None:
        self._line = line
        self._own_group = group == "own"
        self._ignored = {number for number in _PASSED_ON if signal.getsignal(number) is signal.SIG_IGN}
        self._ignored = self._ignored - {signal.SIGINT} | ({signal.SIGINT} if group == "ignoring" else set())
        self._received: dict[int, int] = dict.fromkeys(_PASSED_ON, 0)
        self._job = 0
        self._status: int | None = None  # of the job, when it has ended
        self._childless = False
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _PASSED_ON:
            signal.signal(number, self._receive)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _receive(self, number: int, _: object) -> None:
        """A signal that was sent to the keeper's whole group, and so to the job."""
        self._received[number] += 1

    def start(self, command: list[str]) -> int:
        """Start the job; 0, or the number of the error."""
        keeper, (failed, report) = os.getpid(), os.pipe()  # the pipe closes when the command is executed
        self._job = os.fork()
        if self._job == 0:
            try:
                _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != keeper:  # the keeper died before that
                    os._exit(1)
                self._restore_signals()
                os.execvp(command[0], command)
            except OSError as error:
                os.write(report, bytes([error.errno or 1]))
            finally:
                os._exit(127)
        os.close(report)
        problem = os.read(failed, 1)
        os.close(failed)
        return problem[0] if problem else 0

    def _restore_signals(self) -> None:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        for number in _PASSED_ON:
            signal.signal(number, signal.SIG_IGN if number in self._ignored else signal.SIG_DFL)

    def watch(self) -> int:
        """Wait for the job's end, and pass on what comes over the line; the job's wait status."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while self._reap() is None:
            for descriptor, _ in poll.poll():
                if descriptor == self._woken:
                    os.read(self._woken, 512)
                elif numbers := self._hear():
                    for number in numbers:
                        self._pass_on(number)
                else:
                    poll.unregister(self._line)
                    self.end_all()
        if self._own_group:
            self.end_all()  # what the job left behind, such as workers of data loaders
        return self._status or 0

    def _hear(self) -> bytes:
        """The signals that came over the line; none when the run is gone."""
        with suppress(ConnectionError):  # the run ended before it read the keeper's answer
            return os.read(self._line, 64)
        return b""

    def _pass_on(self, number: int) -> None:
        """Send the job a signal that the run received, unless it reached the whole group and so the job, too."""
        if self._received.get(number, 0):
            self._received[number] -= 1
            return
        if number == signal.SIGINT and number in self._ignored:
            number = signal.SIGTERM  # somebody sent SIGINT to the run on purpose
        _send(number)
        _send(signal.SIGCONT)  # a stopped process ends only when it is continued

    def end_all(self) -> None:
        """End every process below the keeper: SIGTERM, and after a while SIGKILL."""
        _send(signal.SIGTERM)
        _send(signal.SIGCONT)
        kill_at = monotonic() + _SECONDS_TO_END
        self._reap()
        while not self._childless:
            if monotonic() >= kill_at:
                _send(signal.SIGKILL)
            select.select((), (), (), _LOOK_SECONDS)
            self._reap()

    def _reap(self) -> int | None:
        """Take note of every child that has ended; the job's wait status if the job has ended."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._job:
                    self._status = ended[1]
        except ChildProcessError:
            self._childless = True
        return self._status


def _descendants() -> list[int]:
    """All processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:  # the process has just ended
            continue
        children.setdefault(parent, []).append(int(name))
    found, left = [], [os.getpid()]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _send(number: int) -> None:
    for pid in _descendants():
        with suppress(OSError):  # the process has just ended, or runs as another user
            os.kill(pid, number)


def _command(line: int) -> list[str]:
    """The words of the command; each ends with a zero byte, and so does their number before them."""
    received = b""
    while not (b"\0" in received and received.count(b"\0") > int(received[: received.index(b"\0")])):
        part = b""
        with suppress(ConnectionError):
            part = os.read(line, 1 << 16)
        if not part:  # the run is gone
            sys.exit(1)
        received += part
    return [os.fsdecode(word) for word in received.split(b"\0")[1:-1]]


def _end_as(status: int) -> int:
    """End this process as the job ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
        return 128 + number
    return os.WEXITSTATUS(status)


def main() -> int:
    """Keep the job whose command comes over the line."""
    line = int(sys.argv[1])
    os.set_inheritable(line, False)
    keeper = Keeper(line, group=sys.argv[2])
    problem = keeper.start(_command(line))
    with suppress(OSError):  # if the run is gone, the line's end follows
        os.write(line, bytes([problem]))
    try:
        return 1 if problem else _end_as(keeper.watch())
    except BaseException:
        keeper.end_all()  # nobody else would
        raise


if __name__ == "__main__":
    sys.exit(main())
