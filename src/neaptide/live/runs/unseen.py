"""Finds processes of a job that use torch and that neaptide cannot prepare: their Python never read its bootstrap.

A shell script that replaces PYTHONPATH causes that, and so does `python -I`, `-E` or `-S`. The kernel still shows with
which environment and words a process was started, and which libraries it has loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from threading import Event, Thread

from neaptide.live.protocol.absence import Absence
from neaptide.live.protocol.job_settings import BOOTSTRAP

_LOOK_SECONDS = 1.0
_PROCESSES = Path("/proc")
_IGNORES_BOOTSTRAP = frozenset("IES")
_TAKES_A_WORD = frozenset("cmWX")  # options of Python; what follows is no option


class Unseen:
    """Looks at the processes whose environment names this daemon and one of these jobs."""

    def __init__(self, socket: Path, jobs: Collection[str], processes: Path = _PROCESSES) -> None:
        self._socket = bytes(socket)
        self._jobs = {job.encode(): job for job in jobs}
        self._processes = processes
        self._others: set[str] = set()
        self._told: set[str] = set()

    def look(self) -> Iterator[tuple[int, str, str]]:
        """Processes that were not found before: of each its job, and why neaptide does not see it."""
        there = {each.name for each in self._processes.iterdir() if each.name.isdecimal()}
        self._others &= there
        self._told &= there
        for pid in sorted(there - self._others - self._told):
            try:
                job, reason = self._judge(self._processes / pid)
            except OSError:  # it has ended, or is another user's
                continue
            if reason:
                self._told.add(pid)
                yield int(pid), job, reason

    def _judge(self, process: Path) -> tuple[str, str]:
        items = (process / "environ").read_bytes().split(b"\0")
        variables = dict(item.split(b"=", 1) for item in items if b"=" in item)
        job = self._jobs.get(variables.get(b"NEAPTIDE_JOB", b""))
        if job is None or variables.get(b"NEAPTIDE_SOCKET") != self._socket:
            self._others.add(process.name)
            return "", ""
        reason = _why_unprepared((process / "cmdline").read_bytes().split(b"\0"), variables.get(b"PYTHONPATH", b""))
        return job, reason if reason and b"libtorch" in (process / "maps").read_bytes() else ""


def _why_unprepared(words: list[bytes], python_path: bytes) -> str:
    left = iter(words[1:])
    for word in left:
        if not word.startswith(b"-") or word.startswith(b"--"):
            break
        letters = word[1:].decode(errors="replace")
        flags = "".join(takewhile(lambda letter: letter not in _TAKES_A_WORD, letters))
        if found := _IGNORES_BOOTSTRAP & set(flags):
            return f"Python was started with -{min(found)}, with which it does not read neaptide's part"
        taking, its_word = letters[len(flags) :][:1], letters[len(flags) + 1 :]
        if taking in ("c", "m"):  # what follows is the program's
            break
        if taking and not its_word:
            next(left, None)
    if bytes(BOOTSTRAP) not in python_path.split(b":"):
        return "PYTHONPATH was replaced, so Python does not find neaptide's part; add to PYTHONPATH instead"
    return ""


@contextmanager
def telling_of_unseen(socket: Path, jobs: Collection[str], tell: Callable[[str, str], None]) -> Iterator[None]:
    """Inside, say of each such process that it is not shared: with `tell(job, line)`, and in the daemon's status."""
    unseen, over, told = Unseen(socket, jobs), Event(), []

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            for pid, job, reason in unseen.look():
                tell(job, f"job {job} (process {pid}) is not shared: {reason}")
                absence = Absence(socket)
                absence.tell(job, reason, pid)
                told.append(absence)

    thread = Thread(target=look, name="neaptide-unseen", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for absence in told:
            absence.end()
