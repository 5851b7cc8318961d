"""Runs jobs under a policy in virtual time, from submissions to an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time

from neaptide.core.control.actions import Action, CapInFlight
from neaptide.core.control.controller import Controller, Entry, Handled, Note
from neaptide.core.control.events import JobArrived
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View
from neaptide.core.device import DeviceSpec
from neaptide.simulation.contention import Contention
from neaptide.simulation.engine import VirtualEngine
from neaptide.simulation.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, when it comes, and when the requests of an inference job come."""

    job: Job
    arrives_ns: int = 0
    requests_ns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        name = self.job.name
        if self.arrives_ns < 0:
            raise ValueError(f"job {name} arrives before the run begins, at {self.arrives_ns} ns")
        if self.requests_ns and self.job.kind is not JobKind.INFERENCE:
            raise ValueError(f"job {name} trains, so it takes no requests")
        if self.requests_ns and min(self.requests_ns) < self.arrives_ns:
            raise ValueError(f"a request for job {name} comes before the job, at {min(self.requests_ns)} ns")

    @property
    def ends(self) -> bool:
        """Whether the job ends by itself."""
        return self.job.iterations is not None or bool(self.requests_ns)


class _Decisions:
    """A policy's decisions, counted and timed. If `in_flight` is given, every job gets it as its cap on arrival."""

    def __init__(self, policy: Policy, in_flight: int | None) -> None:
        self._policy = policy
        self._in_flight = in_flight
        self.count = 0
        self.seconds = 0.0

    def __call__(self, view: View) -> Sequence[Action]:
        began = thread_time()
        actions = self._policy.decide(view)
        self.seconds += thread_time() - began
        self.count += 1
        if self._in_flight is not None and isinstance(view.event, JobArrived):
            return [CapInFlight(view.event.job, self._in_flight), *actions]
        return actions


def simulate(
    submissions: Sequence[Submission],
    device: DeviceSpec,
    budget_bytes: int,
    policy: Policy,
    *,
    contention: Contention | None = None,
    budget_changes: Sequence[tuple[int, int]] = (),
    until_ns: int | None = None,
    in_flight: int | None = None,
) -> Outcome:
    """Run the jobs until all that end by themselves have ended, until nothing can happen any more, or until `until_ns`.

    A job ends by itself after its iterations, or when its requests have been served. `budget_changes` are pairs of a
    time and the budget from then on. `in_flight` caps the kernels that a job launches ahead until the policy sets
    another cap. Equal arguments give equal logs.
    """
    _check(submissions, budget_bytes, budget_changes, until_ns)
    decisions = _Decisions(policy, in_flight)
    entries: list[Entry] = []

    def note(each: Note) -> None:
        entries.append(each.event if isinstance(each, Handled) else each)

    engine = VirtualEngine(
        [(each.job, each.arrives_ns, sorted(each.requests_ns)) for each in submissions],
        device,
        budget_bytes,
        oversubscribes=policy.oversubscribes,
        contention=contention,
        budget_changes=budget_changes,
        until_ns=until_ns,
    )
    try:
        Controller([each.job for each in submissions], budget_bytes, policy, engine, note, decisions).run()
        return Outcome(
            policy=policy.name,
            budget_bytes=budget_bytes,
            entries=tuple(entries),
            memory=engine.memory(),
            total=engine.total(),
            peak_bytes=engine.peak_bytes,
            over_budget_bytes=engine.over_budget_bytes,
            end_ns=engine.now_ns,
            op_events=engine.op_events,
            decisions=decisions.count,
            decision_seconds=decisions.seconds,
        )
    finally:
        engine.close()


def _check(
    submissions: Sequence[Submission],
    budget_bytes: int,
    budget_changes: Sequence[tuple[int, int]],
    until_ns: int | None,
) -> None:
    if not submissions:
        raise ValueError("there is no job to simulate")
    names = [each.job.name for each in submissions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two jobs are called {twice[0]!r}; give each its own name")
    if until_ns is not None and until_ns <= 0:
        raise ValueError(f"the run must last until a time after 0, not {until_ns} ns")
    if until_ns is None and not any(each.ends for each in submissions):
        raise ValueError("no job says how many iterations it has, so the run needs a time at which it ends")
    for at_ns, budget in ((0, budget_bytes), *budget_changes):
        if at_ns < 0 or budget <= 0:
            raise ValueError(f"a budget must be positive and its time not negative, not {budget} bytes at {at_ns} ns")
