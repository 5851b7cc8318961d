"""What a policy sees: every job as it stands at one moment. Frozen; nothing else reaches a policy."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from neaptide.core.control.events import Event
from neaptide.core.control.job import QUEUED, READY, RUNNING, SUSPENDED, TRAINING, JobKind, JobState
from neaptide.core.once import once
from neaptide.core.rules import turns
from neaptide.core.rules.reserve import FIRST_RESERVE
from neaptide.core.traces.profile import Profile

ADMITTED = (READY, RUNNING)
_AWAY = (QUEUED, SUSPENDED)


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """One job that has arrived and has not ended."""

    name: str
    kind: JobKind
    state: JobState
    priority: int
    # Device time of the jobs of its priority, over their weights (core.rules.shares): the priority that has had the
    # least is due. Only compared between priorities.
    priority_ns: int = 0
    arrived_ns: int
    plans: tuple[Profile, ...]
    plan: int  # index of the plan in use
    profile: Profile  # what it holds on the device, under its plan and its limit
    limit_bytes: int | None = None  # on the device; see SetLimit
    lane: int | None
    lane_since_ns: int = 0  # when the job entered its lane, or returned to it from host memory
    iterations_done: int
    iterations_left: int | None  # None: the job did not say
    since_ns: int  # when the job entered its state
    position_ns: int  # how far the device is in the running iteration, on the time axis of the plan's curve
    started_ns: int  # when the running or else the last iteration was started; 0 before the first
    service_ns: int  # device time of its iterations so far, counted as if each had run alone
    # Service used for fairness. A job that arrives gets at least the smallest share_ns among the jobs that want to run;
    # a job that returns from host memory, at least that less one turn of its own.
    share_ns: int = 0
    busy_ns: int = 0  # how long its iterations took so far, all together
    moved_ns: int = 0  # how long it took to move its bytes, the last time, waiting included; 0 before the first
    recent_ns: int  # how long its last iteration took; 0 before the first
    beside: Mapping[str, float]  # recent slowdown beside each other job; 1: as fast as alone
    held_bytes: int
    stalled: bool  # waits for memory inside an iteration
    evicted: bool = False  # suspended by the engine, which also restores it
    gate_open: bool
    gate_until_ns: int | None = None  # when the open gate closes by itself
    gate_holds_light: bool = False  # see SetGate
    in_deadline_class: bool = False  # see SetClass
    share: float | None = None  # of the device's SMs that the job may use; None: all
    in_flight: int | None  # the cap that the policy set; see CapInFlight
    requests: tuple[int, ...]  # arrival times of the samples that wait, oldest first
    # Arrival times of samples that have reached the program, which has not called its model for them yet; oldest first.
    expected: tuple[int, ...] = ()
    expected_since: tuple[int, ...] = ()  # since when each of these is known
    serving: tuple[int, ...] = ()  # arrival times of the samples that the running iteration serves
    # Arrival times of samples whose iteration has ended, and that the program has not answered yet.
    answering: tuple[int, ...] = ()
    deadline_ns: int | None  # an inference job's SLO from arrival to answer
    latency_critical: bool = False  # its requests are to be served as if it were alone
    reserve: float = FIRST_RESERVE  # the share of its deadline to hold in reserve (core.rules.reserve)
    demand_ns: int = 0  # device time that its next request may take alone, from its history; 0: as measured

    def following(self, plan: int, limit_bytes: int | None = None) -> JobView:
        """The same job under this plan and this limit."""
        whole = self.plans[plan]
        profile = whole if limit_bytes is None else whole.limited_to(limit_bytes)
        return replace(self, plan=plan, limit_bytes=limit_bytes, profile=profile)

    @property
    def admitted(self) -> bool:
        """Whether it holds the lease on its persistent bytes."""
        return self.state in ADMITTED

    @property
    def wants_to_run(self) -> bool:
        """Whether the job is ready and has work; an inference job has work only while samples wait."""
        if self.state is not READY or self.iterations_left == 0:  # a job ends after its last iteration
            return False
        return self.kind is TRAINING or bool(self.requests)

    @property
    def arrivals(self) -> tuple[int, ...]:
        """Arrival times of all samples that no iteration serves yet, oldest first."""
        return tuple(sorted((*self.requests, *self.expected))) if self.expected else self.requests

    @property
    def finishing(self) -> bool:
        """Whether the job has done all the iterations that it announced, and so should end now."""
        return self.state is READY and self.iterations_left == 0

    @property
    def turn_ns(self) -> float:
        """How long the job's turn is when it takes turns with jobs beside which it does not fit."""
        return turns.turn_ns(self.profile.solo_ns, self.profile.persistent_bytes, self.moved_ns)

    @property
    def idle_ns(self) -> float:
        """How long the server stays on the device without a request before it makes way for a job with work."""
        return turns.idle_ns(self.profile.persistent_bytes, self.moved_ns)

    @property
    def remaining_ns(self) -> int | None:
        """Device time to its end, alone; None when the job did not say how long it is."""
        if self.iterations_left is None:
            return None
        return max(self.iterations_left * self.profile.solo_ns - self.position_ns, 0)


class View(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The device and its jobs at one moment, in the order in which the jobs arrived.

    A fact that several rules of one decision ask for is computed once, when it is first asked for.
    """

    now_ns: int
    event: Event  # what the policy is asked about
    budget_bytes: int
    held_bytes: int
    jobs: tuple[JobView, ...]
    lanes: Mapping[int, int] = {}  # the bytes set aside for each lane that has a size
    overflow: bool = False  # whether a job may be limited to less than it needs on the device (SetLimit)
    holds_launched: bool = False  # whether a closed gate holds ops that were launched and have not begun, too

    def in_state(self, *states: JobState) -> list[JobView]:
        return [job for job in self.jobs if job.state in states]

    @property
    def queued(self) -> list[JobView]:
        return [job for job in self.away if job.state is QUEUED]

    @property
    def suspended(self) -> list[JobView]:
        return [job for job in self.away if job.state is SUSPENDED]

    @property
    def admitted(self) -> list[JobView]:
        return list(self._admitted)

    @property
    def running(self) -> list[JobView]:
        return [job for job in self._admitted if job.state is RUNNING]

    @property
    def startable(self) -> list[JobView]:
        return [job for job in self._admitted if job.state is READY and job.wants_to_run]

    @property
    def persistent_bytes(self) -> int:
        """Bytes leased to the admitted jobs for what outlives their iterations."""
        return sum([job.profile.persistent_bytes for job in self._admitted])

    @once
    def away(self) -> tuple[JobView, ...]:
        """The jobs that are not on the device: queued or suspended."""
        if len(self._admitted) == len(self.jobs):
            return ()
        return tuple([job for job in self.jobs if job.state in _AWAY])

    @once
    def idle_servers(self) -> tuple[JobView, ...]:
        """The inference jobs on the device that are between iterations and have no request."""
        serving = [job for job in self._admitted if job.kind is not TRAINING and job.state is READY]
        return tuple([job for job in serving if not (job.requests or job.serving or job.expected)])

    @once
    def has_priorities(self) -> bool:
        """Whether some jobs have a higher priority than others."""
        return len({job.priority for job in self.jobs}) > 1

    @once
    def has_deadlines(self) -> bool:
        """Whether a job has a deadline."""
        return bool([job for job in self.jobs if job.deadline_ns is not None])

    @once
    def has_endless(self) -> bool:
        """Whether a training job did not say how long it is."""
        return bool([job for job in self.jobs if job.iterations_left is None and job.kind is TRAINING])

    @once
    def peaks_bytes(self) -> int:
        """The sum of the peaks of all admitted jobs."""
        return sum([job.profile.peak_bytes for job in self._admitted])

    @once
    def _admitted(self) -> tuple[JobView, ...]:
        return tuple([job for job in self.jobs if job.state in ADMITTED])
