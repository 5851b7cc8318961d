"""Which messages may be sent, and what ends a connection."""

from __future__ import annotations

import msgspec
import pytest

from neaptide.core.traces.trace import Phase
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import MAX_MESSAGE_BYTES, DaemonInbox, frame


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "message",
    [
        say.Hello(pid=7, slot=3, job="a", iterations=5, deadline_seconds=0.5, resumed=True, trace=b"abc"),
        say.RequestArrived(),
        say.Profiled(b"trace", 4),
        say.PhaseEnded(Phase.FORWARD),
        say.IterationEnded(3, 1.5, 17),
        say.Grew(1 << 30),
        say.SetBudget(1 << 40),
        say.Shutdown(),
    ],
)
def test_the_daemon_receives_the_message_that_was_sent(message: say.ToDaemon) -> None:
    assert list(DaemonInbox().feed(frame(message))) == [message]


def test_messages_may_come_in_pieces_and_several_at_once() -> None:
    inbox, sent = DaemonInbox(), frame(say.RequestArrived()) + frame(say.Grew(5)) + frame(say.Goodbye())
    received = [message for byte in sent[:-2] for message in inbox.feed(bytes([byte]))]
    assert received == [say.RequestArrived(), say.Grew(5)]
    assert list(inbox.feed(sent[-2:] + frame(say.RequestArrived()))) == [say.Goodbye(), say.RequestArrived()]


@pytest.mark.parametrize(
    "said",
    [
        {"say": "Hello", "pid": 0, "slot": 0, "job": "a"},
        {"say": "Hello", "pid": 1, "slot": 64, "job": "a"},
        {"say": "Hello", "pid": 1, "slot": 0, "job": ""},
        {"say": "Hello", "pid": 1, "slot": 0, "job": "a", "iterations": 0},
        {"say": "Hello", "pid": 1, "slot": 0, "job": "a", "deadline_seconds": 0.0},
        {"say": "Hello", "pid": 1, "slot": 0, "job": "a", "colour": "red"},
        {"say": "IterationEnded", "index": -1, "took_ns": 1},
        {"say": "SetBudget", "bytes": 0},
        {"say": "PhaseEnded", "phase": 9},
        {"say": "Turn"},
        {"say": "Nonsense"},
        {},
        [],
    ],
)
def test_a_message_that_the_protocol_does_not_have_is_refused(said: object) -> None:
    with pytest.raises(say.ProtocolError, match="not a message of this protocol"):
        list(DaemonInbox().feed(framed(msgspec.msgpack.encode(said))))


@pytest.mark.parametrize("body", [b"\xff\xff", b"GET / HTTP/1.1", b"\x81\xa3say\xa2\xff\xfe"])
def test_bytes_that_are_no_message_are_refused(body: bytes) -> None:
    with pytest.raises(say.ProtocolError):
        list(DaemonInbox().feed(framed(body)))


@pytest.mark.parametrize("head", [b"\0\0\0\0", b"\xff\xff\xff\xff", (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big")])
def test_a_message_of_no_or_too_many_bytes_is_refused_before_its_body_comes(head: bytes) -> None:
    with pytest.raises(say.ProtocolError, match=r"a message of \d+ bytes was announced; at most"):
        list(DaemonInbox().feed(head))


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(ValueError, match="cannot be sent; at most 67108864 can"):
        frame(say.Profiled(bytes(MAX_MESSAGE_BYTES)))
