"""A job and the states it may be in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from neaptide.core.traces.trace import Trace


class JobKind(Enum):
    """Whether a job trains or serves."""

    TRAINING = "training"
    INFERENCE = "inference"


class JobState(Enum):
    """Where a job is in its life."""

    QUEUED = "queued"  # arrived, holds nothing
    READY = "ready"  # admitted: holds its persistent bytes, between two iterations
    RUNNING = "running"  # inside an iteration
    SUSPENDED = "suspended"  # its bytes are in host memory
    DONE = "done"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (JobState.DONE, JobState.FAILED)


LEGAL: Mapping[JobState, frozenset[JobState]] = MappingProxyType(
    {
        JobState.QUEUED: frozenset({JobState.READY, JobState.FAILED}),
        JobState.READY: frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.DONE, JobState.FAILED}),
        JobState.RUNNING: frozenset({JobState.READY, JobState.SUSPENDED, JobState.DONE, JobState.FAILED}),
        # It goes back to where it was: a job may be suspended between iterations or inside one.
        JobState.SUSPENDED: frozenset({JobState.READY, JobState.RUNNING, JobState.FAILED}),
        JobState.DONE: frozenset(),
        JobState.FAILED: frozenset(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process that trains or serves on the device."""

    name: str
    trace: Trace
    alternatives: tuple[Trace, ...] = ()  # the same iteration under plans that need less memory
    kind: JobKind = JobKind.TRAINING
    iterations: int | None = None  # None: until it is stopped
    priority: int = 0  # larger goes first
    deadline_seconds: float | None = None  # an inference job's SLO for one batch
    state: JobState = JobState.QUEUED

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a job needs a name")
        if self.iterations is not None and self.iterations < 1:
            raise ValueError(f"job {self.name}: iterations must be at least 1, not {self.iterations}")
        if self.deadline_seconds is not None and not self.deadline_seconds > 0:
            raise ValueError(f"job {self.name}: the deadline must be positive, not {self.deadline_seconds}")

    def moved_to(self, state: JobState) -> Job:
        """The same job in another state; ValueError if it cannot go there from where it is."""
        if state not in LEGAL[self.state]:
            raise ValueError(f"job {self.name} cannot go from {self.state.value} to {state.value}")
        return replace(self, state=state)
