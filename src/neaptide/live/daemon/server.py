"""The daemon's socket: every message that comes in is handled at once, on the loop's thread."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from time import localtime, strftime

from neaptide.core.control.policy import Policy
from neaptide.devices.board import Board
from neaptide.devices.board.board import take_short_turns
from neaptide.devices.interface import DeviceKind, DeviceSettings
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.clock import LoopClock
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import DaemonInbox, frame
from neaptide.live.protocol.lock import DaemonLock
from neaptide.live.protocol.paths import RuntimePaths, prepare

_WATCH_SECONDS = 0.5
_MOST_UNREAD_BYTES = 1 << 20  # a watcher that leaves more unread is disconnected


def complain(text: str) -> None:
    """Write a line to the daemon's own log, if that is possible."""
    with suppress(OSError, ValueError):
        print(f"{strftime('%Y-%m-%d %H:%M:%S', localtime())} neaptide: {text}", file=sys.stderr, flush=True)


class SocketCaller(asyncio.Protocol):
    """One connection. A wrong message ends this connection and nothing else."""

    def __init__(self, server: Server) -> None:
        self.job: AttachedJob | None = None
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._inbox = DaemonInbox()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._transport = None
        self._server.connections.discard(self)
        self._server.watchers.discard(self)
        self._guard(lambda: self._server.daemon.lost(self))

    def data_received(self, data: bytes) -> None:
        self._guard(lambda: self._take(data))

    def _take(self, data: bytes) -> None:
        for message in self._inbox.feed(data):
            self._server.heard(self, message)
            if self._transport is None:
                return

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except say.ProtocolError as error:
            complain(f"a connection was closed: {error}")
            self._drop()
        except Exception:  # a fault of the daemon must not end it for the other jobs
            complain(f"a connection was closed by a fault: {traceback.format_exc()}")
            self._drop()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def say(self, message: say.FromDaemon) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(message))

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @property
    def does_not_read(self) -> bool:
        return self._transport is None or self._transport.get_write_buffer_size() > _MOST_UNREAD_BYTES


class Server:
    """Accepts connections and keeps the daemon going until it is told to stop."""

    def __init__(self, daemon: Daemon, loop: asyncio.AbstractEventLoop) -> None:
        self.daemon = daemon
        self.connections: set[SocketCaller] = set()
        self.watchers: set[SocketCaller] = set()
        self._loop = loop
        self._watching: asyncio.TimerHandle | None = None
        self.stopped: asyncio.Future[int] = loop.create_future()

    def stop(self, code: int) -> None:
        """End with this exit code."""
        if not self.stopped.done():
            self.stopped.set_result(code)

    def heard(self, connection: SocketCaller, message: say.ToDaemon) -> None:
        match message:
            case say.Shutdown():
                connection.say(say.Done())
                self.stop(0)
            case say.Watch():
                self.watchers.add(connection)
                connection.say(self.daemon.status())
                if self._watching is None:
                    self._watching = self._loop.call_later(_WATCH_SECONDS, self._tell_watchers)
            case _:
                self.daemon.heard(connection, message)

    def _tell_watchers(self) -> None:
        self._watching = None
        if not self.watchers:
            return
        status = self.daemon.status()
        for connection in list(self.watchers):
            if connection.does_not_read:
                connection.hang_up()
            else:
                connection.say(status)
        self._watching = self._loop.call_later(_WATCH_SECONDS, self._tell_watchers)

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self.daemon.close()
        for connection in list(self.connections):
            connection.job = None
            connection.hang_up()


def serve(paths: RuntimePaths, policy: Policy, budget_bytes: int, kind: DeviceKind, settings: DeviceSettings) -> int:
    """Run a daemon in this process until it is told to stop; its exit code. ValueError when one runs already."""
    prepare(paths)
    with DaemonLock(paths):
        board = _board(paths, budget_bytes, kind, settings)
        try:
            return asyncio.run(_serve(paths, board, policy, budget_bytes, kind))
        finally:
            board.close()


def _board(paths: RuntimePaths, budget_bytes: int, kind: DeviceKind, settings: DeviceSettings) -> Board:
    """The board that jobs of an earlier daemon still use, or a new one."""
    if paths.board.exists():
        board = Board.open(paths.board)
        board.reap()
        if board.snapshot().slots:
            return board
        board.close()
        paths.board.unlink()
    return kind.create_board(paths.board, budget_bytes, settings)


async def _serve(paths: RuntimePaths, board: Board, policy: Policy, budget_bytes: int, kind: DeviceKind) -> int:
    loop = asyncio.get_running_loop()
    async with listening(paths, board, policy, budget_bytes, kind) as server:
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
            loop.add_signal_handler(number, server.stop, code)
        take_short_turns()  # a job that waits for a permit should not wait until the kernel schedules the daemon
        gc.collect()
        gc.freeze()  # these objects stay, and collecting them again would take milliseconds
        complain(f"up with policy {policy.name}, pid {os.getpid()}")
        _notify("READY=1")
        code = await server.stopped
        _notify("STOPPING=1")
    complain("down")
    return code


@asynccontextmanager
async def listening(
    paths: RuntimePaths, board: Board, policy: Policy, budget_bytes: int, kind: DeviceKind | None = None
) -> AsyncIterator[Server]:
    """A daemon that listens on the running loop while inside."""
    loop = asyncio.get_running_loop()
    server = Server(Daemon(board, paths, policy, budget_bytes, LoopClock(loop), complain, kind=kind), loop)
    before = os.umask(0o177)  # no other user may connect, from the first moment on
    try:
        listener = await loop.create_unix_server(lambda: SocketCaller(server), str(paths.socket))
    finally:
        os.umask(before)
    try:
        yield server
    finally:
        listener.close()
        paths.socket.unlink(missing_ok=True)
        server.close()
        await asyncio.sleep(0)  # the last messages are sent now


def _notify(state: str) -> None:
    """Tell systemd, if it started this."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.connect("\0" + address[1:] if address.startswith("@") else address)
        notify.sendall(state.encode())
