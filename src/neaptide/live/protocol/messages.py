"""What the daemon, jobs and commands say to each other: msgspec structs, each behind four bytes of length.

A job says Hello when it has its slot on the board. The daemon closes its permit before it answers, so that no armed
iteration runs unasked. A job that is not resumed says Ready when its first iteration is about to begin (Hello.ready:
at once), waits for Turn, runs its first iterations without arming the launch gate, says Profiled, and from then on
arms every iteration. It reports an iteration's end when the device has passed it. End of file: the other is gone.
"""

from __future__ import annotations

import struct
from typing import Annotated, TypeVar

import msgspec

from neaptide.core.control.job import JobKind
from neaptide.core.traces.trace import Phase

VERSION = 1
MAX_MESSAGE_BYTES = 64 << 20
LENGTH = struct.Struct(">I")

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
Reason = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Duration = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ProtocolError(ValueError):
    """The other side does not speak this protocol."""


class Message(msgspec.Struct, frozen=True, tag_field="say", forbid_unknown_fields=True):
    """One thing said."""


# --- job -> daemon


class Hello(Message, frozen=True, kw_only=True):
    """A job is here. The first thing it says."""

    version: int = VERSION
    pid: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    slot: Annotated[int, msgspec.Meta(ge=0, lt=64)]
    job: Name
    kind: JobKind = JobKind.TRAINING
    iterations: Annotated[int, msgspec.Meta(ge=1, lt=2**32)] | None = None
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] = 0
    deadline_seconds: Annotated[float, msgspec.Meta(gt=0, lt=1e6)] | None = None
    begun: Count = 0  # iterations begun on the board, the one that waits for its permit not counted
    ended: Count = 0  # of these, those that the device has passed
    ready: bool = True  # its first iteration is about to begin; else it says Ready then
    resumed: bool = False  # it was with a daemon before and was measured there
    trace: bytes | None = None  # what was measured then


class Ready(Message, frozen=True):
    """The newcomer's first iteration is about to begin; it waits for Turn."""


class Profiled(Message, frozen=True):
    """The newcomer was measured; its next iteration is armed, and waits for its permit."""

    trace: bytes
    measured: Count = 0  # iterations done while it was measured, none of them begun on the board


class RequestArrived(Message, frozen=True):
    """A sample came for an inference job."""


class PhaseEnded(Message, frozen=True):
    """The device has passed the last op of a phase of the running iteration."""

    phase: Phase


class IterationEnded(Message, frozen=True):
    """The device has passed the last op of the iteration with this number on the board, 0 for the first."""

    index: Count
    size: Annotated[float, msgspec.Meta(gt=0, le=1e6)]  # its work against that of the iterations that were measured
    took_ns: Duration  # since its first kernel was permitted


class Grew(Message, frozen=True):
    """An iteration needed this much, which is more than any before it, and than was measured."""

    peak_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**50)]


class Failed(Message, frozen=True):
    """The job ends without having done its iterations."""

    reason: Reason


class Goodbye(Message, frozen=True):
    """The job has done what it wanted."""


# --- daemon -> job


class Welcome(Message, frozen=True):
    """The job is known, under this name, which is its own unless another job has it."""

    job: str
    measure: bool  # wait for Turn and measure; else go on armed
    policy: str = ""


class Turn(Message, frozen=True):
    """The newcomer may measure now."""


class Refused(Message, frozen=True):
    """The job cannot be taken. The daemon closes the connection."""

    reason: str


# --- anyone -> daemon, and its answers


class StatusRequest(Message, frozen=True):
    """How do things stand? Answered by Status."""


class Watch(Message, frozen=True):
    """Say Status twice a second from now on."""


class SetBudget(Message, frozen=True):
    """All jobs together may hold this much from now on. Answered by Done or Problem."""

    bytes: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Shutdown(Message, frozen=True):
    """End the daemon; jobs go on under the board's limits. Answered by Done."""


class JobStatus(Message, frozen=True, kw_only=True):
    """One job as the daemon sees it."""

    name: str
    pid: int
    kind: JobKind
    state: str  # a JobState, or `waiting to be measured`, `measured`, `evicted`, `stopped`
    reason: str = ""  # why it failed
    priority: int
    iterations_done: int  # since it was measured
    iterations: int | None
    iterations_per_second: float  # over its last ones; 0 before there are any
    solo_seconds: float  # one iteration alone, as measured; 0 before
    progress: float  # of the running iteration, 0..1
    held_bytes: int
    peak_bytes: int  # the most it was seen to hold
    needs_bytes: int  # persistent and ephemeral, as measured; 0 before
    persistent_bytes: int
    waiting_seconds: float  # without a running iteration or for memory, since it was measured
    stalled: bool


class Status(Message, frozen=True, kw_only=True):
    """How things stand."""

    version: int = VERSION
    pid: int
    policy: str
    uptime_seconds: float
    budget_bytes: int
    used_bytes: int
    high_water_bytes: int
    sms: int
    board: str
    jobs: tuple[JobStatus, ...]  # in the order of arrival; those that ended come first
    problem: str = ""  # what goes wrong in the daemon itself, such as a log that cannot be written


class Done(Message, frozen=True):
    """It was done."""


class Problem(Message, frozen=True):
    """It was not done."""

    reason: str


ToDaemon = (
    Hello
    | Ready
    | Profiled
    | RequestArrived
    | PhaseEnded
    | IterationEnded
    | Grew
    | Failed
    | Goodbye
    | StatusRequest
    | Watch
    | SetBudget
    | Shutdown
)
FromDaemon = Welcome | Turn | Refused | Status | Done | Problem

_ENCODER = msgspec.msgpack.Encoder()
_TO_DAEMON: msgspec.msgpack.Decoder[ToDaemon] = msgspec.msgpack.Decoder(ToDaemon)
_FROM_DAEMON: msgspec.msgpack.Decoder[FromDaemon] = msgspec.msgpack.Decoder(FromDaemon)


def frame(message: Message) -> bytes:
    """The message as it is sent, its length before it; ValueError when it is too large."""
    body = _ENCODER.encode(message)
    if len(body) > MAX_MESSAGE_BYTES:
        raise ValueError(f"a message of {len(body)} bytes; at most {MAX_MESSAGE_BYTES} can be sent")
    return LENGTH.pack(len(body)) + body


def length_of(head: bytes | bytearray) -> int:
    """The length of the body that these four bytes announce; ProtocolError when it is too large."""
    (length,) = LENGTH.unpack(head)
    if not 0 < length <= MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {length} bytes was announced; at most {MAX_MESSAGE_BYTES} are allowed")
    return int(length)


def read_to_daemon(body: bytes | memoryview) -> ToDaemon:
    """What was said to the daemon; ProtocolError when it is nothing known."""
    return _read(_TO_DAEMON, body)


def read_from_daemon(body: bytes | memoryview) -> FromDaemon:
    """What the daemon said; ProtocolError when it is nothing known."""
    return _read(_FROM_DAEMON, body)


_Said = TypeVar("_Said", ToDaemon, FromDaemon)


def _read(decoder: msgspec.msgpack.Decoder[_Said], body: bytes | memoryview) -> _Said:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a message of this protocol: {' '.join(str(error).split())}") from None
