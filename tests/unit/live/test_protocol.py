"""Which messages may be sent, and what ends a connection."""

from __future__ import annotations

import msgspec
import pytest

from neaptide.core.control.job import DisplayState, JobKind
from neaptide.core.traces.trace import Phase
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.framing import MOST_BYTES, MOST_SMALL_BYTES, DaemonInbox, frame


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "message",
    [
        say.Hello(pid=7, slot=3, job="a", iterations=5, deadline_seconds=0.5, resumed=True, trace=b"abc"),
        say.RequestArrived(),
        say.RequestExpected(1, 300),
        say.RequestCalled(1, 5, joins=True),
        say.RequestAnswered(1, 9),
        say.Profiled(b"trace", 4),
        say.PhaseEnded(Phase.FORWARD),
        say.IterationEnded(3, 1.5, 2, 17),
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


@pytest.mark.parametrize("head", [b"\0\0\0\0", b"\xff\xff\xff\xff", (MOST_BYTES + 1).to_bytes(4, "big")])
def test_a_message_of_no_or_too_many_bytes_is_refused_before_its_body_comes(head: bytes) -> None:
    with pytest.raises(say.ProtocolError, match=r"a message of \d+ bytes was announced; at most"):
        list(DaemonInbox().feed(head))


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(ValueError, match="cannot be sent; at most 16777216 can"):
        frame(say.Profiled(bytes(MOST_BYTES)))


def test_only_a_message_with_a_trace_may_be_large() -> None:
    large = bytes(MOST_SMALL_BYTES)
    for message in (say.Profiled(large), say.Hello(pid=7, slot=3, job="a", resumed=True, trace=large)):
        assert list(DaemonInbox().feed(frame(message))) == [message]


@pytest.mark.parametrize("kind", ["Failed", "StatusRequest", "Nonsense", "Hell", "Profiledx"])
def test_another_large_message_is_refused_from_its_first_bytes_on(kind: str) -> None:
    inbox = DaemonInbox()
    begin = msgspec.msgpack.encode({"say": kind, "reason": "x" * MOST_SMALL_BYTES})[:20]
    with pytest.raises(say.ProtocolError, match="without a trace"):
        list(inbox.feed((MOST_SMALL_BYTES + 40).to_bytes(4, "big") + begin))


def test_a_hello_of_another_version_is_told_apart_from_nonsense() -> None:
    theirs = {"say": "Hello", "version": 9, "name": "from the future", "shares": 3}
    with pytest.raises(
        say.OtherVersionError, match=f"the job speaks version 9 of the protocol, the daemon {say.VERSION}"
    ):
        list(DaemonInbox().feed(framed(msgspec.msgpack.encode(theirs))))


def test_a_large_hello_of_another_version_with_many_fields_is_told_its_version() -> None:
    said = {"say": "Hello", "version": say.VERSION + 1, "trace": bytes(MOST_SMALL_BYTES)}
    said |= {f"field {number}": number for number in range(13)}  # 16 in all: msgpack then counts them in two bytes
    sent = framed(msgspec.msgpack.encode(said))
    assert sent[4] == 0xDE
    inbox = DaemonInbox()
    assert list(inbox.feed(sent[:40])) == []
    with pytest.raises(say.OtherVersionError, match=f"version {say.VERSION + 1} "):
        list(inbox.feed(sent[40:]))


def test_a_large_message_of_many_fields_without_a_trace_is_refused_from_its_first_bytes() -> None:
    said = {"say": "Grew", "text": bytes(MOST_SMALL_BYTES), **{f"field {number}": number for number in range(14)}}
    with pytest.raises(say.ProtocolError, match="without a trace"):
        list(DaemonInbox().feed(framed(msgspec.msgpack.encode(said))[:40]))


def test_a_message_whose_texts_are_no_unicode_is_sent_with_question_marks() -> None:
    (said,) = DaemonInbox().feed(frame(say.Failed("RuntimeError: \ud800 at /tmp/\udcff")))
    assert said == say.Failed("RuntimeError: ? at /tmp/?")
    job = say.JobStatus(name="a", pid=1, kind=JobKind.TRAINING, state=DisplayState.FAILED, reason="\udcff")
    status = say.Status(
        pid=1,
        policy="p",
        uptime_seconds=0.0,
        budget_bytes=0,
        used_bytes=0,
        high_water_bytes=0,
        sms=1,
        board="/tmp/\udcff",
        jobs=(job,),
    )
    sent = msgspec.msgpack.decode(frame(status)[4:])
    assert (sent["board"], sent["jobs"][0]["reason"]) == ("/tmp/?", "?")
