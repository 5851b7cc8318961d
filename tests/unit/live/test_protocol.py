"""What may be said, and what ends a connection."""

from __future__ import annotations

import msgspec
import pytest

from neaptide.core.traces.trace import Phase
from neaptide.live.protocol import messages as say


@pytest.mark.parametrize(
    "message",
    [
        say.Hello(pid=7, slot=3, job="a", iterations=5, deadline_seconds=0.5, resumed=True, trace=b"abc"),
        say.Ready(),
        say.Profiled(b"trace", 4),
        say.PhaseEnded(Phase.FORWARD),
        say.IterationEnded(3, 1.5, 17),
        say.Grew(1 << 30),
        say.SetBudget(1 << 40),
        say.Shutdown(),
    ],
)
def test_what_is_said_is_what_is_heard(message: say.ToDaemon) -> None:
    sent = say.frame(message)
    assert say.length_of(sent[:4]) == len(sent) - 4
    assert say.read_to_daemon(sent[4:]) == message


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
def test_what_is_not_of_the_protocol_is_refused(said: object) -> None:
    with pytest.raises(say.ProtocolError, match="not a message of this protocol"):
        say.read_to_daemon(msgspec.msgpack.encode(said))


@pytest.mark.parametrize("body", [b"", b"\xff\xff", b"GET / HTTP/1.1", b"\x81\xa3say\xa2\xff\xfe"])
def test_bytes_that_are_no_message_are_refused(body: bytes) -> None:
    with pytest.raises(say.ProtocolError):
        say.read_to_daemon(body)


@pytest.mark.parametrize("head", [b"\0\0\0\0", b"\xff\xff\xff\xff", (say.MAX_MESSAGE_BYTES + 1).to_bytes(4, "big")])
def test_a_message_of_no_or_too_many_bytes_is_not_awaited(head: bytes) -> None:
    with pytest.raises(say.ProtocolError, match=r"a message of \d+ bytes was announced; at most"):
        say.length_of(head)


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(ValueError, match="at most 67108864 can be sent"):
        say.frame(say.Profiled(bytes(say.MAX_MESSAGE_BYTES)))
