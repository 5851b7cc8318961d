"""What the ledger knows of one job, and how a policy sees it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field

from msgspec.structs import replace

from neaptide.core.control.engine import Observation
from neaptide.core.control.job import LEGAL, QUEUED, READY, RUNNING, SUSPENDED, TRAINING, Job, JobState
from neaptide.core.control.view import JobView
from neaptide.core.rules.reserve import FIRST_RESERVE, next_reserve
from neaptide.core.rules.turns import turn_ns
from neaptide.core.rules.work import REMEMBERED, expected_ns
from neaptide.core.traces.profile import Profile

_MOST_ANSWERING = 64  # requests that are remembered until they are answered
_NEWEST = 0.5  # weight of the newest iteration in the average slowdown beside another job
_MOST_SLOWER = 1.5  # a single iteration's slowdown counts as at most this many times the average so far


@dataclass(slots=True)
class Account:
    """One job's plans, state and history."""

    job: Job
    plans: tuple[Profile, ...]
    arrived_ns: int = 0
    state: JobState = QUEUED
    since_ns: int = 0
    before_suspension: JobState = READY
    evicted: bool = False  # suspended by the engine, which also restores it
    unresponsive: bool = False  # evicted because its process does not respond: its bytes stay on the device
    hidden: bool = False  # it stopped responding while it was suspended or queued, and still is so
    kept_until_ns: int = 0  # its bytes could not be moved to host memory: it is not suspended before this time
    plan: int = 0
    limit_bytes: int | None = None  # on the device; the rest of an iteration overflows to host memory
    lane: int | None = None
    lane_since_ns: int = 0
    ceiling_bytes: int | None = None
    iterations_done: int = 0
    started_ns: int = 0
    service_ns: int = 0
    share_ns: int = 0
    busy_ns: int = 0
    recent_ns: int = 0
    asked_to_move_ns: int = 0
    moved_ns: int = 0
    beside: dict[str, float] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)  # jobs that ran at some time during the running iteration
    stalled: bool = False
    gate_open: bool = True
    gate_until_ns: int | None = None
    gate_holds_light: bool = False
    in_deadline_class: bool = False
    share: float | None = None
    in_flight: int | None = None
    # Arrival times of samples. `requests`, `expected` and `unanswered` are sorted.
    requests: list[int] = field(default_factory=list)  # they wait for an iteration
    expected: list[int] = field(default_factory=list)  # the program has not called its model for them yet
    known_ns: dict[int, int] = field(default_factory=dict)  # of `expected`: since when each is known
    unanswered: list[int] = field(default_factory=list)  # those whose answers the program will tell of
    joining: tuple[int, ...] = ()  # the next iteration serves them beside its own
    serving: tuple[int, ...] = ()  # the running iteration serves them
    answering: tuple[int, ...] = ()  # the last iterations served them, and the program has not answered them yet
    answered_early: tuple[int, ...] = ()  # of those above: answered before their iteration was reported
    reserve: float = FIRST_RESERVE
    sizes: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))  # of its last iterations
    shown: JobView | None = None  # the last view, unless something has changed since

    @property
    def profile(self) -> Profile:
        """What the job holds on the device under its plan and its limit."""
        return self.limited(self.whole)

    @property
    def whole(self) -> Profile:
        """What the job needs under its plan, wherever its limit puts it."""
        return self.plans[self.plan]

    def limited(self, plan: Profile) -> Profile:
        """A plan of the job under its limit. Changes nothing."""
        return plan if self.limit_bytes is None else plan.limited_to(self.limit_bytes)

    def replace_plan(self, profile: Profile) -> None:
        """Put a profile that is more exact in the place of that of the plan in use."""
        self.plans = (*self.plans[: self.plan], profile, *self.plans[self.plan + 1 :])

    @property
    def admitted(self) -> bool:
        return self.state in (READY, RUNNING)

    @property
    def state_on_device(self) -> JobState:
        """The job's state; if it is suspended, the state to which it returns."""
        return self.before_suspension if self.state is SUSPENDED else self.state

    @property
    def inside_an_iteration(self) -> bool:
        """Whether the job must keep its plan and limit. A job that the engine evicted returns with those it had."""
        return self.evicted or self.state_on_device is RUNNING

    @property
    def turn_ns(self) -> float:
        """How long the job's turn is when it takes turns with jobs beside which it does not fit."""
        return turn_ns(self.profile.solo_ns, self.profile.persistent_bytes, self.moved_ns)

    @property
    def expects_work(self) -> bool:
        return self.job.kind is TRAINING or bool(self.requests or self.expected or self.serving)

    @property
    def wants_device(self) -> bool:
        busy = self.state is RUNNING
        return busy or (self.state is READY and (self.job.kind is TRAINING or bool(self.requests)))

    @property
    def deadline_ns(self) -> int | None:
        """The SLO. A latency-critical job that gave none has the time in which it could serve two requests alone."""
        if self.job.deadline_seconds is None:
            return 2 * self.profile.solo_ns if self.job.latency_critical else None
        return round(self.job.deadline_seconds * 1e9)

    def answered(self, took_ns: int) -> None:
        """A request was answered: the reserve follows the measured tail."""
        if self.job.deadline_seconds is not None:
            deadline_ns = round(self.job.deadline_seconds * 1e9)
            self.reserve = next_reserve(self.reserve, took_ns, deadline_ns, self.job.deadline_quantile)

    def expect(self, arrived_ns: int, now_ns: int) -> None:
        """A request is known for which the program has yet to call its model."""
        insort(self.expected, arrived_ns)
        self.known_ns[arrived_ns] = now_ns

    def expect_no_more(self, arrived_ns: int) -> None:
        """The program has called its model for the request, or has answered it."""
        discard(self.expected, arrived_ns)
        if arrived_ns not in self.expected:
            self.known_ns.pop(arrived_ns, None)

    def served(self, now_ns: int) -> None:
        """An iteration has ended: its requests are answered, or the program is about to say so of each."""
        late = [each for each in self.serving if each in self.unanswered]
        self.answering = (*self.answering, *late)[-_MOST_ANSWERING:]
        for each in self.serving:
            if each not in late and each not in self.answered_early:
                self.answered(now_ns - each)
        self.answered_early = tuple(each for each in self.answered_early if each not in self.serving)
        self.serving = ()

    def withdraw_call(self, now_ns: int) -> None:
        """No iteration is to come for the requests of the last call, for which one waits or was started."""
        called = (*self.requests, *self.joining, *self.serving)
        self.requests.clear()
        self.joining = self.serving = self.answered_early = ()
        for each in called:
            if each in self.unanswered:  # the program may call its model for it again
                self.expect(each, now_ns)

    def move(self, state: JobState, now_ns: int) -> None:
        assert state in LEGAL[self.state], f"job {self.job.name} cannot go from {self.state} to {state}"
        self.state = state
        self.since_ns = now_ns

    def slowed(self, other: str, factor: float) -> None:
        """Update the average slowdown beside another job: an iteration took `factor` times as long as alone."""
        before = self.beside.get(other)
        if before is not None:
            factor = before + _NEWEST * (min(factor, _MOST_SLOWER * before) - before)
        self.beside[other] = factor

    def time_alone_changes(self, solo_ns: int) -> None:
        """Keep the slowdowns true: they are multiples of the time alone."""
        factor = self.profile.solo_ns / max(solo_ns, 1)
        self.beside = {other: factor * slower for other, slower in self.beside.items()}

    def view(self, seen: Observation, priority_ns: int = 0) -> JobView:
        """The job as a policy sees it, with the engine's current observation and the service of its priority."""
        shown, job = self.shown, self.job
        position_ns, held_bytes = seen.position_ns, seen.held_bytes
        if shown is not None:
            if shown.position_ns != position_ns or shown.held_bytes != held_bytes or shown.priority_ns != priority_ns:
                self.shown = shown = replace(
                    shown, position_ns=position_ns, held_bytes=held_bytes, priority_ns=priority_ns
                )
            return shown
        self.shown = JobView(
            name=job.name,
            kind=job.kind,
            state=self.state,
            priority=job.priority,
            priority_ns=priority_ns,
            arrived_ns=self.arrived_ns,
            plans=self.plans,
            plan=self.plan,
            profile=self.profile,
            limit_bytes=self.limit_bytes,
            lane=self.lane,
            lane_since_ns=self.lane_since_ns,
            iterations_done=self.iterations_done,
            iterations_left=None if job.iterations is None else job.iterations - self.iterations_done,
            since_ns=self.since_ns,
            position_ns=position_ns,
            started_ns=self.started_ns,
            service_ns=self.service_ns,
            share_ns=self.share_ns,
            busy_ns=self.busy_ns,
            recent_ns=self.recent_ns,
            moved_ns=self.moved_ns,
            beside=self.beside,
            held_bytes=held_bytes,
            stalled=self.stalled,
            evicted=self.evicted,
            gate_open=self.gate_open,
            gate_until_ns=self.gate_until_ns,
            gate_holds_light=self.gate_holds_light,
            in_deadline_class=self.in_deadline_class,
            share=self.share,
            in_flight=self.in_flight,
            requests=tuple(self.requests),
            expected=tuple(self.expected),
            expected_since=tuple([self.known_ns[each] for each in self.expected]),
            serving=self.serving,
            answering=self.answering,
            deadline_ns=self.deadline_ns,
            latency_critical=job.latency_critical,
            reserve=self.reserve,
            demand_ns=expected_ns(self.profile.solo_ns, self.sizes),
        )
        return self.shown


def discard(times_ns: list[int], at_ns: int) -> None:
    """Remove a time from a sorted list, if it is there."""
    index = bisect_left(times_ns, at_ns)
    if index < len(times_ns) and times_ns[index] == at_ns:
        del times_ns[index]
