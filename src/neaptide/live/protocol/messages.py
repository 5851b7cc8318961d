"""The messages between the daemon, jobs and commands; framing.py says how they are sent.

A job sends Hello when it has its slot on the board. The daemon closes the job's permit before it answers, so that no
armed iteration runs without the policy's consent. A new job waits for Welcome, runs its first iterations without arming
the launch gate, sends Profiled, and from then on arms every iteration. If an earlier run of the same program was
measured, it sends that trace before its first whole iteration, and its own when it has been measured. It reports the
end of an iteration when the device has passed it. When its iterations have changed for good it sends Profiled again. A
closed connection means that the other side is gone.

Hello with its version, and JobRefused, stay as they are in every version, so that each side can say why it cannot talk.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from neaptide.core.control import job_limits as limits
from neaptide.core.control.job import DisplayState, JobKind
from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.core.traces.trace import Phase

VERSION = 8

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.NAME_BYTES)]
REASON_LETTERS = 4096
Reason = Annotated[str, msgspec.Meta(max_length=REASON_LETTERS)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**50)]
Duration = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
RequestNumber = Annotated[int, msgspec.Meta(ge=1, lt=2**62)]  # another one for each request of a process

LeaseOverheadBytes = tuple[Bytes, Bytes, Bytes]  # the fields of core.traces.leases.LeaseOverhead


class ProtocolError(ValueError):
    """The other side does not speak this protocol."""


class OtherVersionError(ProtocolError):
    """A job speaks another version of this protocol."""

    def __init__(self, version: int | None) -> None:
        super().__init__(f"the job speaks version {version} of the protocol, the daemon {VERSION}")


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
    iterations: Annotated[int, msgspec.Meta(ge=1, le=limits.MOST_ITERATIONS)] | None = None
    priority: Annotated[int, msgspec.Meta(ge=limits.LEAST_PRIORITY, le=limits.MOST_PRIORITY)] = 0
    deadline_seconds: Annotated[float, msgspec.Meta(gt=0, le=limits.MOST_DEADLINE_SECONDS)] | None = None
    deadline_quantile: Annotated[float, msgspec.Meta(ge=limits.LEAST_QUANTILE, le=limits.MOST_QUANTILE)] = (
        DEFAULT_QUANTILE
    )
    latency_critical: bool = False
    memory_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**50)] | None = None  # that it is expected to hold
    ended: Count = 0  # how many of the iterations begun on the board the device has passed
    resumed: bool = False  # an earlier daemon measured it
    trace: bytes | None = None  # of a resumed job: the trace from that measurement
    lease_overhead: LeaseOverheadBytes = (0, 0, 0)  # of a resumed job, as in Profiled


class Profiled(Message, frozen=True):
    """The job was measured; its next iteration is armed and waits for its permit. Sent again when it has changed."""

    trace: bytes
    measured: Count = 0  # iterations done before it was first measured; the board counted none of them
    lease_overhead: LeaseOverheadBytes = (0, 0, 0)  # bytes that it leased beyond those that its tensors needed
    measuring_seconds: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0  # since the first of these iterations began


class NotShared(Message, frozen=True):
    """A process that should be a job is not one. It keeps the connection open for as long as that is true."""

    pid: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    job: Name
    reason: Reason


class RequestArrived(Message, frozen=True):
    """The program of an inference job calls its model for a request that was not announced: the request arrives now."""


class RequestExpected(Message, frozen=True):
    """A request has reached the program of an inference job, which will call its model for it."""

    request: RequestNumber
    deadline_ns: Duration | None = None  # of its own; None: the job's
    waited_ns: Duration = 0  # since it reached the machine, before the program read it


class RequestCalled(Message, frozen=True):
    """The program calls its model for a request, the first time or again; perhaps it was not announced before."""

    request: RequestNumber
    waited_ns: Duration  # since it reached the program
    joins: bool  # the call is part of an iteration that is there already, or of one that serves other requests too
    deadline_ns: Duration | None = None


class RequestAnswered(Message, frozen=True):
    """The program has answered a request that it had announced or called its model for."""

    request: RequestNumber
    took_ns: Duration  # since it reached the program


class CallWithdrawn(Message, frozen=True):
    """The program's last call of its model has returned and launched nothing, so no iteration is to come for it."""


class PhaseEnded(Message, frozen=True):
    """The device has passed the last op of a phase of the running iteration."""

    phase: Phase


class IterationEnded(Message, frozen=True):
    """The device has passed the last op of an iteration, and of all before it that were not reported.

    A job reports several together when the daemon has not read for a while.
    """

    index: Count  # of the iteration on the board; the first has 0
    size: Annotated[float, msgspec.Meta(gt=0, le=1e6)]  # its work, where a measured iteration has 1
    extra: Count  # in all so far: iterations that a thread ended after another thread had ended the process's iteration
    took_ns: Duration  # as in core.control.events.IterationEnded; of several together, their sum


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

    measure: bool  # the job measures its first iterations; otherwise it arms its iterations at once
    job: Name  # as the daemon calls it
    budget_bytes: Bytes
    policy: str


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


class Use(Message, frozen=True):
    """A run uses the daemon while this connection is open. The answer is Status."""


class StopUse(Message, frozen=True):
    """The run has ended. The answer is UseStopped."""


class UseStopped(Message, frozen=True):
    """The daemon no longer counts the run."""

    ends: bool  # the daemon was started for runs, and nothing else uses it


class Shutdown(Message, frozen=True):
    """End the daemon; jobs go on under the board's limits. The answer is Done."""


class JobStatus(Message, frozen=True, kw_only=True):
    """One job as the daemon sees it. Of a process that is no job, only the name, the state and the reason are known."""

    name: str
    pid: int
    kind: JobKind
    state: DisplayState
    reason: str = ""  # why it failed, or waits for something that the policy cannot give
    priority: int = 0
    iterations_done: int = 0  # of a job that an earlier daemon measured: without those before
    iterations: int | None = None
    iterations_per_second: float = 0.0  # over the last iterations; 0 before the second has ended
    solo_seconds: float = 0.0  # one iteration alone, as measured; 0 before
    progress: float = 0.0  # of the running iteration, 0..1
    held_bytes: int = 0
    over_bytes: int = 0  # in host memory over the link, where its kernels reach them; not among those held
    peak_bytes: int = 0  # the most that it was seen to hold
    needs_bytes: int = 0  # persistent and ephemeral leases, as measured; 0 before
    persistent_bytes: int = 0
    framework_bytes: int = 0  # of the persistent ones: those in no tensor of the program, such as a GPU's context
    waiting_seconds: float = 0.0  # in which it could not run because of other jobs (docs/metrics.md, "waiting")
    stalled: bool = False


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
    jobs: tuple[JobStatus, ...]  # in the order of arrival, then those that ended, the last one first
    problem: str = ""  # a fault of the daemon itself, such as a log that cannot be written


class Done(Message, frozen=True):
    """The command was carried out."""


class Problem(Message, frozen=True):
    """The command was not carried out."""

    reason: str


ToDaemon = (
    Hello
    | NotShared
    | Profiled
    | RequestArrived
    | RequestExpected
    | RequestCalled
    | RequestAnswered
    | CallWithdrawn
    | PhaseEnded
    | IterationEnded
    | Grew
    | Failed
    | Goodbye
    | StatusRequest
    | Watch
    | SetBudget
    | Use
    | StopUse
    | Shutdown
)
FromDaemon = Welcome | JobRefused | Status | UseStopped | Done | Problem
