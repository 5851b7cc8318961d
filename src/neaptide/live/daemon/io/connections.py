"""The daemon's connections, and how much each of them, and all together, may ask of it.

A connection that asks for more than a job or a command ever does is closed: the daemon's memory and the time that other
jobs wait for it do not depend on what comes over its socket. A job whose connection is closed goes on under the board's
limits and joins again.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Protocol

from neaptide.core.traces.trace_format import Decoded, try_decode
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import MOST_SMALL_BYTES, DaemonInbox, frame
from neaptide.peer import Peer

MOST_CONNECTIONS = 256
MOST_WAITING_BYTES = 64 << 20  # of messages that are not complete or not read, of all connections together
MOST_UNREAD_BYTES = 1 << 20  # of answers that one connection leaves unread
SILENT_SECONDS = 10.0  # to say something at all, and to complete a message
CLOSING_SECONDS = 5.0  # to read the last answers
_SWEEP_SECONDS = 1.0
_WITH_TRACE = (say.Hello, say.Profiled)
_TURN_SECONDS = 0.0005  # that the messages of one connection may take before other connections have their turn


class MessageHandler(Protocol):
    """What connections need of their server."""

    def heard(self, caller: SocketCaller, message: say.ToDaemon, trace: Decoded | None) -> None:
        """Handle a message, with its trace if it has one."""

    def lost(self, caller: SocketCaller) -> None:
        """A connection has ended."""

    def complain(self, text: str) -> None:
        """Write a line to the daemon's own log."""


class SocketCaller(asyncio.Protocol):
    """One connection. A wrong message ends this connection and nothing else."""

    def __init__(self, connections: Connections, handler: MessageHandler) -> None:
        self.job: AttachedJob | None = None
        self.peer_pid = 0
        self.watches = False
        self.uses = False  # a run that uses the daemon
        self.spoke = False  # it has sent a whole message
        self.since = monotonic()  # when it connected, began its incomplete message, or was told that it ends
        self._connections = connections
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._inbox = DaemonInbox()
        self._decoding: Future[Decoded] | None = None
        self._decoding_bytes = 0

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = Peer.of(transport.get_extra_info("socket"))
        self.peer_pid = peer.pid
        if peer.is_this_user:
            self._connections.add(self)
        else:
            self._handler.complain(f"a connection of user {peer.uid} was closed")
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._transport = None
        self._connections.discard(self)
        self._guard(lambda: self._handler.lost(self))

    def data_received(self, data: bytes) -> None:
        if not self.waiting_bytes:
            self.since = monotonic()
        self._inbox.add(data)
        if self._decoding is None:
            self._guard(self._take)
        if self.waiting_bytes > MOST_SMALL_BYTES:
            self._connections.check_waiting()

    # --- messages

    @property
    def waiting_bytes(self) -> int:
        """Bytes of messages that are not complete, or not read."""
        return self._inbox.waiting_bytes + self._decoding_bytes

    def _take(self) -> None:
        """Handle messages for a moment; the rest waits while other connections have their turn."""
        until = monotonic() + _TURN_SECONDS
        while (transport := self._transport) is not None and not transport.is_closing():
            message = self._inbox.next()
            if message is None:
                transport.resume_reading()
                return
            self.spoke, self.since = True, monotonic()
            if isinstance(message, _WITH_TRACE) and message.trace is not None:
                self._decode(message, message.trace)
                return
            self._handler.heard(self, message, None)
            if monotonic() > until:
                transport.pause_reading()
                self._connections.loop.call_soon(self._guard, self._take)
                return

    def _decode(self, message: say.Hello | say.Profiled, trace: bytes) -> None:
        """Read a trace on another thread; the connection's next messages wait for it."""
        if self._transport is not None:
            self._transport.pause_reading()
        self._decoding_bytes = len(trace)
        self._decoding = self._connections.decoder.submit(try_decode, trace)
        self._decoding.add_done_callback(
            lambda done: self._connections.call_from_thread(lambda: self._guard(lambda: self._read(message, done)))
        )

    def _read(self, message: say.ToDaemon, done: Future[Decoded]) -> None:
        self._decoding, self._decoding_bytes = None, 0
        if self._transport is not None and not done.cancelled():
            self._handler.heard(self, message, done.result())
            self._take()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except say.OtherVersionError as error:
            self._handler.complain(f"a job was refused: {error}")
            self.say(say.JobRefused(str(error)))
            self.hang_up()
        except say.ProtocolError as error:
            self._handler.complain(f"a connection was closed: {error}")
            self.drop()
        except Exception:  # a fault of the daemon must not end it for the other jobs
            self._handler.complain(f"a connection was closed by a fault: {traceback.format_exc()}")
            self.drop()

    # --- a Caller

    def say(self, message: say.FromDaemon) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._transport.write(frame(message))
        if self._transport.get_write_buffer_size() > MOST_UNREAD_BYTES:
            self._handler.complain("a connection that does not read was closed")
            self.drop()

    def hang_up(self) -> None:
        if self._transport is not None:
            self.since = monotonic()
            self._transport.close()

    def drop(self) -> None:
        """End the connection at once."""
        if self._decoding is not None:
            self._decoding.cancel()
        if self._transport is not None:
            self._transport.abort()

    def overdue(self, now: float) -> bool:
        """Whether it should have said something, completed its message or read its last answers by now."""
        if self._transport is not None and self._transport.is_closing():
            return now - self.since > CLOSING_SECONDS
        waits = self._decoding is None and (not self.spoke or self._inbox.waiting_bytes > 0)
        return waits and now - self.since > SILENT_SECONDS


class Connections:
    """All connections of a daemon."""

    def __init__(self, loop: asyncio.AbstractEventLoop, complain: Callable[[str], None]) -> None:
        self.loop = loop
        self.decoder = ThreadPoolExecutor(1, "neaptide-traces")  # one trace at a time, so that memory is bounded
        self._complain = complain
        self._callers: dict[SocketCaller, None] = {}  # the oldest first
        self._sweeping: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[SocketCaller]:
        return iter(list(self._callers))

    def add(self, caller: SocketCaller) -> None:
        """Keep a new connection. If there are too many, close the oldest one that is neither a job's nor a run's."""
        self._callers[caller] = None
        if len(self._callers) > MOST_CONNECTIONS:
            others = [each for each in self._callers if each.job is None and not each.uses and each is not caller]
            if victim := min(others, key=lambda each: each.watches, default=None):
                self._complain(f"more than {MOST_CONNECTIONS} connections: the oldest one without a job was closed")
                self._remove(victim)
        if self._sweeping is None:
            self._sweeping = self.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def discard(self, caller: SocketCaller) -> None:
        self._callers.pop(caller, None)

    def check_waiting(self) -> None:
        """Close the connection that keeps the most bytes waiting, when all together keep too many."""
        if sum(each.waiting_bytes for each in self._callers) > MOST_WAITING_BYTES:
            victim = max(self._callers, key=lambda each: each.waiting_bytes)
            self._complain(f"a connection was closed: messages of more than {MOST_WAITING_BYTES} bytes wait")
            self._remove(victim)

    def call_from_thread(self, call: Callable[[], None]) -> None:
        """Make a call on the loop's thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(call)

    def close(self) -> None:
        """Hang up everywhere."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.decoder.shutdown(wait=False, cancel_futures=True)
        for caller in self:
            caller.job = None
            caller.hang_up()

    def _remove(self, caller: SocketCaller) -> None:
        self.discard(caller)
        caller.drop()

    def _sweep(self) -> None:
        """Close connections that are overdue."""
        now = monotonic()
        for caller in self:
            if caller.overdue(now):
                caller.drop()
        self._sweeping = self.loop.call_later(_SWEEP_SECONDS, self._sweep) if self._callers else None
