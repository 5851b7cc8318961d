"""What a policy sees: every job as it stands at one moment. Frozen; nothing else reaches a policy."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from neaptide.core.control.events import Event
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.traces.profile import Profile

_ADMITTED = (JobState.READY, JobState.RUNNING)


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """One job that has arrived and has not ended."""

    name: str
    kind: JobKind
    state: JobState
    priority: int
    arrived_ns: int
    plans: tuple[Profile, ...]
    plan: int  # index of the plan in use
    lane: int | None
    lane_since_ns: int = 0  # when the job entered its lane, or returned to it from host memory
    iterations_done: int
    iterations_left: int | None  # None: the job did not say
    since_ns: int  # when the job entered its state
    position_ns: int  # how far the device is in the running iteration, on the time axis of the plan's curve
    started_ns: int  # when the running or else the last iteration was started; 0 before the first
    service_ns: int  # device time of its iterations so far, counted as if each had run alone
    # Service used for fairness. A job that arrives or returns gets at least the smallest share_ns among the jobs that
    # want to run.
    share_ns: int = 0
    busy_ns: int = 0  # how long its iterations took so far, all together
    recent_ns: int  # how long its last iteration took; 0 before the first
    beside: Mapping[str, float]  # recent slowdown beside each other job; 1: as fast as alone
    held_bytes: int
    stalled: bool  # waits for memory inside an iteration
    evicted: bool = False  # suspended by the engine, which also restores it
    gate_open: bool
    in_flight: int | None  # the cap that the policy set; see CapInFlight
    requests: tuple[int, ...]  # arrival times of the samples that wait, oldest first
    serving: tuple[int, ...] = ()  # arrival times of the samples that the running iteration serves
    deadline_ns: int | None  # an inference job's SLO from arrival to answer

    @property
    def profile(self) -> Profile:
        return self.plans[self.plan]

    @property
    def admitted(self) -> bool:
        """Whether it holds the lease on its persistent bytes."""
        return self.state in _ADMITTED

    @property
    def wants_to_run(self) -> bool:
        """Whether the job is ready and has work; an inference job has work only while samples wait."""
        if self.state is not JobState.READY or self.iterations_left == 0:  # a job ends after its last iteration
            return False
        return self.kind is JobKind.TRAINING or bool(self.requests)

    @property
    def finishing(self) -> bool:
        """Whether the job has done all the iterations that it announced, and so should end now."""
        return self.state is JobState.READY and self.iterations_left == 0

    @property
    def remaining_ns(self) -> int | None:
        """Device time to its end, alone; None when the job did not say how long it is."""
        if self.iterations_left is None:
            return None
        return max(self.iterations_left * self.profile.solo_ns - self.position_ns, 0)


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The device and its jobs at one moment, in the order in which the jobs arrived."""

    now_ns: int
    event: Event  # what the policy is asked about
    budget_bytes: int
    held_bytes: int
    jobs: tuple[JobView, ...]

    def in_state(self, *states: JobState) -> list[JobView]:
        return [job for job in self.jobs if job.state in states]

    @property
    def queued(self) -> list[JobView]:
        return self.in_state(JobState.QUEUED)

    @property
    def admitted(self) -> list[JobView]:
        return [job for job in self.jobs if job.state in _ADMITTED]

    @property
    def running(self) -> list[JobView]:
        return self.in_state(JobState.RUNNING)

    @property
    def startable(self) -> list[JobView]:
        return [job for job in self.jobs if job.wants_to_run]

    @property
    def persistent_bytes(self) -> int:
        """Bytes leased to the admitted jobs for what outlives their iterations."""
        return sum(job.profile.persistent_bytes for job in self.jobs if job.admitted)
