"""A job and the states it may be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from types import MappingProxyType

from neaptide.core.rules.reserve import DEFAULT_QUANTILE
from neaptide.core.traces.trace import Trace


class JobKind(Enum):
    """Whether a job trains or serves."""

    TRAINING = "training"
    INFERENCE = "inference"


class JobState(Enum):
    """Where a job is in its life."""

    QUEUED = "queued"  # arrived and not admitted; bytes that a live job has from being measured move to host memory
    READY = "ready"  # admitted: holds its persistent bytes, between two iterations
    RUNNING = "running"  # inside an iteration
    SUSPENDED = "suspended"  # its bytes are in host memory or move there; those of an unresponsive job stay
    DONE = "done"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (JobState.DONE, JobState.FAILED)


# For code that runs at every event: Python 3.11 takes longer to look a member up than to compare it.
TRAINING, INFERENCE = JobKind.TRAINING, JobKind.INFERENCE
QUEUED, READY, RUNNING, SUSPENDED = JobState.QUEUED, JobState.READY, JobState.RUNNING, JobState.SUSPENDED


# The states that may follow each state. The ledger moves jobs by this table.
LEGAL: Mapping[JobState, frozenset[JobState]] = MappingProxyType(
    {
        JobState.QUEUED: frozenset({JobState.READY, JobState.FAILED}),
        JobState.READY: frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.DONE, JobState.FAILED}),
        JobState.RUNNING: frozenset({JobState.READY, JobState.SUSPENDED, JobState.DONE, JobState.FAILED}),
        # A job is suspended between iterations or inside one, and resumes there.
        JobState.SUSPENDED: frozenset({JobState.READY, JobState.RUNNING, JobState.FAILED}),
        JobState.DONE: frozenset(),
        JobState.FAILED: frozenset(),
    }
)


class DisplayState(StrEnum):
    """A job's state as people see it: the ledger's states, those before a job arrives, and why a job is suspended."""

    STARTING = "starting"  # its process runs and has not connected
    MEASURING = "measuring"  # it runs, and its first iterations are being measured
    UNMEASURED = "running unmeasured"  # it has shown no iterations so far
    QUEUED = "queued"
    READY = "ready"
    RUNNING = "running"
    SUSPENDED = "suspended"  # by the policy
    EVICTED = "evicted"  # suspended by the engine, which also restores it
    STOPPED = "stopped"  # its process does not respond
    NOT_SHARED = "not shared"  # its process was to be a job and is none
    DONE = "done"
    INTERRUPTED = "interrupted"  # by its user
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (DisplayState.DONE, DisplayState.INTERRUPTED, DisplayState.FAILED)

    @property
    def word(self) -> str:
        """The state in a word or two, for tables and figures."""
        return _WORDS.get(self, self.value)


INTERRUPTION = "KeyboardInterrupt"  # the reason that a job gives when its user ended it


def is_interruption(reason: str) -> bool:
    """Whether a job that ended for this reason was interrupted, and did not fail."""
    return reason.partition(":")[0] == INTERRUPTION


_WORDS = {
    DisplayState.UNMEASURED: "unmeasured",
    DisplayState.READY: "waiting",
}


def display_state(known: JobState | DisplayState, *, evicted: bool = False, unresponsive: bool = False) -> DisplayState:
    """How a job's state is shown: `known` is the ledger's state, or a state from before the job arrived."""
    if unresponsive:
        return DisplayState.STOPPED
    return DisplayState.EVICTED if evicted else DisplayState(known.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process that trains or serves on the device."""

    name: str
    trace: Trace
    alternatives: tuple[Trace, ...] = ()  # the same iteration under plans that need less memory
    kind: JobKind = JobKind.TRAINING
    iterations: int | None = None  # None: until it is stopped
    priority: int = 0  # one more doubles its share (core.rules.shares)
    deadline_seconds: float | None = None  # an inference job's SLO for one batch
    deadline_quantile: float = DEFAULT_QUANTILE  # the share of its deadlines that is to be kept
    latency_critical: bool = False  # an inference job whose requests are to be served as if it were alone

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a job needs a name")
        if self.iterations is not None and self.iterations < 1:
            raise ValueError(f"job {self.name}: iterations must be at least 1, not {self.iterations}")
        if self.deadline_seconds is not None and not self.deadline_seconds > 0:
            raise ValueError(f"job {self.name}: the deadline must be positive, not {self.deadline_seconds}")
        if not 0 < self.deadline_quantile < 1:
            raise ValueError(f"job {self.name}: the quantile must be between 0 and 1, not {self.deadline_quantile}")
