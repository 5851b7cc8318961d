"""What one connection may ask of the daemon, without a socket: time, memory, and threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import Decoded, TraceFormatError
from neaptide.live.daemon.io import connections
from neaptide.live.daemon.io.connections import MOST_UNREAD_BYTES, Connections, SocketCaller
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import frame
from scripted_daemon import trace

ASK = frame(say.StatusRequest())


class Loop:
    """An event loop that a test turns."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.called = threading.Semaphore(0)

    def call_soon(self, call: Callable[..., None], *arguments: Any) -> None:
        self.calls.append(lambda: call(*arguments))
        self.called.release()

    call_soon_threadsafe = call_soon

    def call_later(self, _: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return cast("asyncio.TimerHandle", call)

    def is_closed(self) -> bool:
        return False

    def turn(self) -> None:
        """Make the next call; waits for a thread that is to ask for one."""
        assert self.called.acquire(timeout=30)
        self.calls.pop(0)()


class Transport(asyncio.Transport):
    """A connection of this user that never reads what it is sent."""

    def __init__(self) -> None:
        self.reading, self.aborted, self.unread = True, False, 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        return None

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unread += len(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.aborted = True


class World:
    """One connection, which hears itself."""

    def __init__(self) -> None:
        self.loop, self.transport = Loop(), Transport()
        self.connections = Connections(cast("asyncio.AbstractEventLoop", self.loop), self.complain)
        self.caller = SocketCaller(self.connections, self)
        self.said: list[tuple[say.ToDaemon, Decoded | None]] = []
        self.complaints: list[str] = []

    def heard(self, caller: SocketCaller, message: say.ToDaemon, trace: Decoded | None) -> None:  # noqa: ARG002
        self.said.append((message, trace))

    def lost(self, caller: SocketCaller) -> None: ...

    def complain(self, text: str) -> None:
        self.complaints.append(text)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    class ThisUser:
        pid, is_this_user = 7, True

    monkeypatch.setattr(connections.Peer, "of", lambda _: ThisUser)
    world = World()
    world.caller.connection_made(world.transport)
    yield world
    world.connections.decoder.shutdown()


def test_a_connection_of_another_user_is_closed_and_not_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    class OtherUser:
        pid, uid, is_this_user = 7, 4711, False

    monkeypatch.setattr(connections.Peer, "of", lambda _: OtherUser)
    world = World()
    world.caller.connection_made(world.transport)
    assert world.transport.aborted
    assert world.complaints == ["a connection of user 4711 was closed"]
    world.caller.data_received(ASK)
    assert (world.said, world.transport.unread) == ([], 0)


def test_a_connection_with_much_to_say_lets_others_have_their_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(10**6))
    monkeypatch.setattr(connections, "monotonic", lambda: float(next(times)))  # every message takes seconds
    world.caller.data_received(ASK * 3)
    assert (len(world.said), world.transport.reading) == (1, False)
    world.loop.turn()
    assert (len(world.said), world.transport.reading) == (2, False)
    world.loop.turn()
    world.loop.turn()
    assert (len(world.said), world.transport.reading, world.loop.calls) == (3, True, [])


@pytest.mark.parametrize(("encoded", "kind"), [(trace(1, 1), Trace), (b"no trace", TraceFormatError)])
def test_a_trace_is_read_on_another_thread_and_later_messages_wait_for_it(
    world: World, encoded: bytes, kind: type
) -> None:
    world.caller.data_received(frame(say.Profiled(encoded)) + ASK)
    assert (world.said, world.transport.reading) == ([], False)
    world.loop.turn()
    assert [type(message) for message, _ in world.said] == [say.Profiled, say.StatusRequest]
    assert isinstance(world.said[0][1], kind)
    assert world.transport.reading


def test_a_connection_that_leaves_too_much_unread_is_closed(world: World) -> None:
    for _ in range(MOST_UNREAD_BYTES // 100):
        world.caller.say(say.Problem("x" * 100))
    assert world.transport.aborted
    assert MOST_UNREAD_BYTES < world.transport.unread < MOST_UNREAD_BYTES + 200
    assert world.complaints == ["a connection that does not read was closed"]


def test_the_connection_that_keeps_the_most_bytes_waiting_is_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_WAITING_BYTES", 300_000)
    other = SocketCaller(world.connections, world)
    other.connection_made(other_transport := Transport())
    half = frame(say.Profiled(bytes(1_000_000)))
    other.data_received(half[:200_000])
    world.caller.data_received(half[:90_000])
    assert (world.transport.aborted, other_transport.aborted) == (False, False)
    world.caller.data_received(half[90_000:130_000])
    assert (world.transport.aborted, other_transport.aborted) == (False, True)
