"""The daemon's socket: messages are handled as they come in, on the loop's thread."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import localtime, monotonic, monotonic_ns, strftime

from neaptide.core.control.policy import Policy
from neaptide.core.text import printable
from neaptide.core.traces.trace_format import Decoded
from neaptide.devices.board import Board
from neaptide.devices.board.board import take_short_turns
from neaptide.devices.interface import DeviceKind, DeviceSettings
from neaptide.live.daemon.clock import LoopClock
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.daemon.io.connections import MOST_CONNECTIONS, Connections, SocketCaller
from neaptide.live.daemon.io.files import RuntimeFiles, open_board
from neaptide.live.daemon.io.listening_socket import ListeningSocket
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.lock import DaemonLock
from neaptide.live.protocol.paths import RuntimePaths, prepare

_WATCH_SECONDS = 0.5
_LOOK_SECONDS = 0.1  # between looks whether the last job of a daemon without users is gone
_COMPLAINTS = 20  # about connections, in a minute
_OTHER_FILES = 64  # beside connections
_BEAT_SECONDS = 0.1


def complain(text: str) -> None:
    """Write a line to the daemon's own log, if that is possible."""
    with suppress(OSError, ValueError):
        shown = "\n".join(map(printable, text.split("\n")))
        print(f"{strftime('%Y-%m-%d %H:%M:%S', localtime())} neaptide: {shown}", file=sys.stderr, flush=True)


class Sparing:
    """Complains a few times a minute, and counts the rest: strangers must not fill the disk."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._minute, self._told, self._left_out = 0, 0, 0

    def __call__(self, text: str) -> None:
        minute = int(monotonic() // 60)
        if minute != self._minute:
            if self._left_out:
                self._tell(f"{self._left_out} complaints about connections were left out")
            self._minute, self._told, self._left_out = minute, 0, 0
        if self._told < _COMPLAINTS:
            self._told += 1
            self._tell(text)
        else:
            self._left_out += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """How long a daemon runs: until it is told to stop, unless it was started for runs."""

    line: int | None = None  # the descriptor of a first connection, to the process that started the daemon
    until_unused: bool = False  # it ends when no run uses it and it has no job
    temporary: bool = False  # its folder ends with it


class Server:
    """Accepts connections and keeps the daemon going until it is told to stop. It handles their messages."""

    def __init__(
        self, daemon: Daemon, loop: asyncio.AbstractEventLoop, paths: RuntimePaths, until_unused: bool = False
    ) -> None:
        self.daemon = daemon
        self.complain = Sparing(complain)
        self.socket = ListeningSocket(
            paths.socket, lambda: SocketCaller(self.connections, self), backlog=MOST_CONNECTIONS
        )
        self.connections = Connections(loop, self.complain)
        self._until_unused = until_unused
        self._loop = loop
        self._watching: asyncio.TimerHandle | None = None
        self._beating: asyncio.TimerHandle | None = None
        self.stopped: asyncio.Future[int] = loop.create_future()

    def stop(self, code: int) -> None:
        """End with this exit code."""
        if not self.stopped.done():
            self.stopped.set_result(code)

    def stop_use(self) -> bool:
        """End the daemon if it was started for runs and nothing uses it any more. Returns whether it ends now."""
        if not self._until_unused or any(caller.uses for caller in self.connections):
            return False
        if self.daemon.has_jobs:  # one that is not a run's, or whose end is not known yet
            self._loop.call_later(_LOOK_SECONDS, self.stop_use)
            return False
        self.stop(0)
        return True

    def heard(self, caller: SocketCaller, message: say.ToDaemon, trace: Decoded | None) -> None:
        match message:
            case say.Use() if caller.job is None:
                if self.stopped.done():  # too late: the run has to start another daemon
                    caller.hang_up()
                    return
                caller.uses = True
                caller.say(self.daemon.status())
            case say.StopUse() if caller.job is None:
                caller.uses = False
                # After the next round of the loop, which removes jobs whose ends came before this.
                self._loop.call_soon(self._loop.call_soon, self._answer_stop_use, caller)
            case say.Shutdown() if caller.job is None:
                caller.say(say.Done())
                self.stop(0)
            case say.Watch() if caller.job is None:
                caller.watches = True
                caller.say(self.daemon.status())
                if self._watching is None:
                    self._watching = self._loop.call_later(_WATCH_SECONDS, self._tell_watchers)
            case _:
                self.daemon.heard(caller, message, trace)
                if self._beating is None and self.daemon.has_jobs:
                    self._beat()

    def lost(self, caller: SocketCaller) -> None:
        try:
            self.daemon.lost(caller)
        finally:
            self.stop_use()

    def _answer_stop_use(self, caller: SocketCaller) -> None:
        caller.say(say.UseStopped(ends=self.stop_use()))

    def _beat(self) -> None:
        """Tell the jobs ten times a second that the daemon lives: jobs do not wait for one that is stopped."""
        self._beating = None
        if not self.daemon.has_jobs:
            self.daemon.rest()
            return
        self._beating = self._loop.call_later(_BEAT_SECONDS, self._beat)
        try:
            self.daemon.beat(monotonic_ns())
        except Exception:  # as for a message: the other jobs go on
            complain(f"a fault: {traceback.format_exc()}")

    def _tell_watchers(self) -> None:
        self._watching = None
        watchers = [each for each in self.connections if each.watches]
        if not watchers:
            return
        status = self.daemon.status()
        for caller in watchers:
            caller.say(status)
        self._watching = self._loop.call_later(_WATCH_SECONDS, self._tell_watchers)

    def close(self) -> None:
        for timer in (self._watching, self._beating):
            if timer is not None:
                timer.cancel()
        self.daemon.close()
        self.connections.close()


def serve(
    paths: RuntimePaths,
    policy: Policy,
    budget_bytes: int,
    kind: DeviceKind,
    settings: DeviceSettings,
    lifetime: Lifetime,
) -> int:
    """Run a daemon in this process until it is told to stop; its exit code. ValueError when one runs already."""
    prepare(paths)
    in_use = False
    try:
        with DaemonLock(paths) as lock:
            board = open_board(paths.board, lambda: kind.create_board(paths.board, budget_bytes, settings))
            try:
                with kind.services(paths.board, settings):
                    code, in_use = asyncio.run(_serve(paths, lock, board, policy, budget_bytes, kind, lifetime))
                return code
            finally:
                board.close()
    finally:
        if lifetime.temporary and not in_use:  # otherwise the run still reads the log, and removes the folder itself
            shutil.rmtree(paths.folder, ignore_errors=True)


async def _serve(
    paths: RuntimePaths,
    lock: DaemonLock,
    board: Board,
    policy: Policy,
    budget_bytes: int,
    kind: DeviceKind,
    lifetime: Lifetime,
) -> tuple[int, bool]:
    """Serve until the end; the exit code, and whether a run still uses the daemon."""
    loop = asyncio.get_running_loop()
    async with listening(paths, board, policy, budget_bytes, kind, lifetime.until_unused) as server:
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
            loop.add_signal_handler(number, server.stop, code)
        _allow_open_files(MOST_CONNECTIONS + _OTHER_FILES)
        files = asyncio.ensure_future(RuntimeFiles(paths, lock, board, server.socket).keep(complain))
        files.add_done_callback(lambda _: server.stop(1))
        take_short_turns()  # a job that waits for a permit should not wait until the kernel schedules the daemon
        gc.collect()
        gc.freeze()  # these objects stay, and collecting them again would take milliseconds
        complain(f"up with policy {policy.name}, pid {os.getpid()}")
        _notify("READY=1")
        if lifetime.line is not None:
            line = socket.socket(fileno=lifetime.line)
            line.set_inheritable(False)
            await loop.connect_accepted_socket(lambda: SocketCaller(server.connections, server), line)
        code = await server.stopped
        in_use = any(caller.uses for caller in server.connections)
        files.cancel()
        _notify("STOPPING=1")
    complain("down")
    return code, in_use


@asynccontextmanager
async def listening(
    paths: RuntimePaths,
    board: Board,
    policy: Policy,
    budget_bytes: int,
    kind: DeviceKind | None = None,
    until_unused: bool = False,
) -> AsyncIterator[Server]:
    """A daemon that listens on the running loop while inside."""
    loop = asyncio.get_running_loop()
    daemon = Daemon(board, paths, policy, budget_bytes, LoopClock(loop), complain, kind=kind)
    server = Server(daemon, loop, paths, until_unused)
    await server.socket.bind()
    try:
        yield server
    finally:
        server.socket.close()
        server.close()
        await asyncio.sleep(0)  # the last messages are sent now


def _allow_open_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _notify(state: str) -> None:
    """Tell systemd, if it started this."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.sendall(state.encode())
