"""The messages between the daemon, jobs and commands; framing.py says how they are sent.

A job sends Hello when it has its slot on the board. The daemon closes the job's permit before it answers, so that no
armed iteration runs without the policy's consent. A new job then waits for Turn, runs its first iterations without
arming the launch gate, sends Profiled, and from then on arms every iteration. It reports the end of an iteration when
the device has passed it. A closed connection means that the other side is gone.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from neaptide.core.control.job import DisplayState, JobKind
from neaptide.core.traces.trace import Phase

VERSION = 2

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]
Reason = Annotated[str, msgspec.Meta(max_length=4096)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**50)]
Duration = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


LeaseOverheadBytes = tuple[Bytes, Bytes, Bytes]  # the fields of core.traces.leases.LeaseOverhead


class ProtocolError(ValueError):
    """The other side does not speak this protocol."""


class Message(msgspec.Struct, frozen=True, tag_field="say", forbid_unknown_fields=True):
    """Anything that is sent."""


# --- job -> daemon


class Hello(Message, frozen=True, kw_only=True):
    """A job introduces itself. The first message of its connection."""

    version: int = VERSION
    pid: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    slot: Annotated[int, msgspec.Meta(ge=0, lt=64)]
    job: Name
    kind: JobKind = JobKind.TRAINING
    iterations: Annotated[int, msgspec.Meta(ge=1, lt=2**32)] | None = None
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] = 0
    deadline_seconds: Annotated[float, msgspec.Meta(gt=0, lt=1e6)] | None = None
    ended: Count = 0  # iterations, of those begun on the board, that the device has passed
    resumed: bool = False  # an earlier daemon measured it
    trace: bytes | None = None  # of a resumed job: the trace from that measurement
    lease_overhead: LeaseOverheadBytes = (0, 0, 0)  # of a resumed job, as in Profiled


class Profiled(Message, frozen=True):
    """The new job was measured; its next iteration is armed and waits for its permit."""

    trace: bytes
    measured: Count = 0  # iterations done while it was measured; the board counted none of them
    lease_overhead: LeaseOverheadBytes = (0, 0, 0)  # bytes that it leased beyond those that its tensors needed


class RequestArrived(Message, frozen=True):
    """A sample came for an inference job."""


class PhaseEnded(Message, frozen=True):
    """The device has passed the last op of a phase of the running iteration."""

    phase: Phase


class IterationEnded(Message, frozen=True):
    """The device has passed the last op of an iteration."""

    index: Count  # of the iteration on the board; the first has 0
    size: Annotated[float, msgspec.Meta(gt=0, le=1e6)]  # its work, where a measured iteration has 1
    took_ns: Duration  # as in core.control.events.IterationEnded


class Grew(Message, frozen=True):
    """An iteration needed more memory than was measured and than any iteration before it."""

    peak_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**50)]  # leased, as is expected of such iterations from now on


class Failed(Message, frozen=True):
    """The job ends before it has done its iterations."""

    reason: Reason


class Goodbye(Message, frozen=True):
    """The job ends, having done its iterations."""


# --- daemon -> job


class Welcome(Message, frozen=True):
    """The daemon has taken the job in."""

    measure: bool  # the job waits for Turn and is measured; otherwise it arms its iterations at once


class Turn(Message, frozen=True):
    """The new job may run its first iterations now, to be measured."""


class JobRefused(Message, frozen=True):
    """The daemon does not take the job, and closes the connection."""

    reason: str


# --- command -> daemon, and the answers


class StatusRequest(Message, frozen=True):
    """Ask for one Status."""


class Watch(Message, frozen=True):
    """Ask for a Status twice a second from now on."""


class SetBudget(Message, frozen=True):
    """Change the bytes that all jobs together may hold. The answer is Done or Problem."""

    bytes: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Shutdown(Message, frozen=True):
    """End the daemon; jobs go on under the board's limits. The answer is Done."""


class JobStatus(Message, frozen=True, kw_only=True):
    """One job as the daemon sees it."""

    name: str
    pid: int
    kind: JobKind
    state: DisplayState
    reason: str = ""  # why it failed
    priority: int
    iterations_done: int  # since it was measured
    iterations: int | None
    iterations_per_second: float  # over the last iterations; 0 before the second has ended
    solo_seconds: float  # one iteration alone, as measured; 0 before
    progress: float  # of the running iteration, 0..1
    held_bytes: int
    peak_bytes: int  # the most that it was seen to hold
    needs_bytes: int  # persistent and ephemeral leases, as measured; 0 before
    persistent_bytes: int
    waiting_seconds: float  # since it was measured, the time without a running iteration or waiting for memory
    stalled: bool


class Status(Message, frozen=True, kw_only=True):
    """The daemon, its device and its jobs at one moment."""

    version: int = VERSION
    pid: int
    policy: str
    uptime_seconds: float
    budget_bytes: int
    used_bytes: int
    high_water_bytes: int
    sms: int
    board: str
    jobs: tuple[JobStatus, ...]  # jobs that ended come first, then the others in the order of arrival
    problem: str = ""  # a fault of the daemon itself, such as a log that cannot be written


class Done(Message, frozen=True):
    """The command was carried out."""


class Problem(Message, frozen=True):
    """The command was not carried out."""

    reason: str


ToDaemon = (
    Hello
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
FromDaemon = Welcome | Turn | JobRefused | Status | Done | Problem
