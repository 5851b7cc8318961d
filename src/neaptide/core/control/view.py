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
    plan: int  # index of the one in use
    lane: int | None
    lane_since_ns: int = 0  # when it came into its lane, or back to it from host memory
    iterations_done: int
    iterations_left: int | None  # None: the job did not say
    since_ns: int  # when it came into its state
    position_ns: int  # of the device in the running iteration, on the time axis of the plan's curve
    started_ns: int  # when the running or else the last iteration was started; 0 before the first
    service_ns: int  # the device time that its iterations had so far, counted as if alone
    share_ns: int = 0  # its service for fair shares: whoever comes starts level with the least served that wants to run
    busy_ns: int = 0  # how long its iterations took so far, all together
    recent_ns: int  # how long its last iteration took; 0 before the first
    beside: Mapping[str, float]  # how many times as long iterations took beside each other job, of late
    held_bytes: int
    stalled: bool  # waits for memory inside an iteration
    evicted: bool = False  # suspended by the engine, which also brings it back
    gate_open: bool
    in_flight: int | None  # the cap
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
        """Ready, and with work: an inference job has some only while samples wait."""
        if self.state is not JobState.READY or self.iterations_left == 0:  # after its last one it ends
            return False
        return self.kind is JobKind.TRAINING or bool(self.requests)

    @property
    def finishing(self) -> bool:
        """It has done all its iterations and ends now, unless it does more than it said."""
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
        """Leased for what outlives iterations."""
        return sum(job.profile.persistent_bytes for job in self.jobs if job.admitted)
