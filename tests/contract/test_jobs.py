"""A job from its arrival to its end: its states, its iterations, its requests, and what is expected of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from contract.engines import engines
from contract.world import LEASE, LOOK_NS, MS, Does, Engine, Scene, Step, Tide, rise_and_fall
from neaptide.core.control.actions import Action, Resume, Start, Suspend, WakeAt
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import IterationEnded, JobEvicted, JobGrew, JobSuspended, RequestArrived
from neaptide.core.control.job import LEGAL, Job, JobKind, JobState
from neaptide.core.control.log_format import facts_of
from neaptide.core.control.view import View
from neaptide.policies import POLICIES
from neaptide.reporting.logs.records import read_log
from simple_policies import Everything


@engines()
def test_a_job_goes_through_the_same_states_on_every_engine(engine: Engine) -> None:
    suspended: list[int] = []

    def suspend_once(view: View) -> Sequence[Action]:
        if isinstance(view.event, IterationEnded) and view.event.job == "a" and len(suspended) == 0:
            suspended.append(view.now_ns)
            return [Suspend("a")]
        if isinstance(view.event, JobSuspended):
            return [Resume("a")]
        return [*Everything().decide(view), WakeAt(view.now_ns + LOOK_NS)]

    tides = [Tide(name="a", steps=rise_and_fall(4, 100 * MS), iterations=2), Tide(name="b", steps=rise_and_fall(2))]
    facts = engine.run(Scene(tides=tides, budget=12, policy=Does(suspend_once)))
    facts.check_all_ended()
    states = [job.state for _, job in facts.seen("a")]
    changes = [states[0], *(after for before, after in pairwise(states) if before is not after)]
    queued, ready, running, away = JobState.QUEUED, JobState.READY, JobState.RUNNING, JobState.SUSPENDED
    assert changes == [queued, running, ready, away, ready, running, ready]
    assert all(after in LEGAL[before] or before is queued for before, after in pairwise(changes))


@engines()
def test_every_iteration_of_a_job_alone_is_counted_and_its_work_is_its_service(engine: Engine) -> None:
    alone = Tide(name="a", steps=rise_and_fall(4, seconds=2 * MS), iterations=20)
    facts = engine.run(Scene(tides=[alone], budget=10, policy=POLICIES.make("neaptide")))
    facts.check_all_ended()
    seen = [job for _, job in facts.seen("a")]
    assert seen[-1].iterations_done == 20
    ends = facts.events(IterationEnded)
    assert sum(event.iterations if event.work is None else event.work for event in ends) == pytest.approx(20)
    # The work of each iteration counts with the time alone as it was known then; a slow machine corrects it.
    solo_ns = {job.profile.solo_ns for job in seen}
    assert 20 * min(solo_ns) * 0.99 <= seen[-1].service_ns <= 20 * max(solo_ns) * 1.01
    if len(solo_ns) == 1:
        assert seen[-1].service_ns == pytest.approx(20 * seen[-1].profile.solo_ns)


@engines()
def test_an_iteration_serves_the_oldest_requests_up_to_its_batch(engine: Engine) -> None:
    steps = (Step(1, 10 * MS),)
    tide = Tide(name="a", kind=JobKind.INFERENCE, steps=steps, batch=2, requests=(0.0, 0.001, 0.002, 0.003, 0.004))
    facts = engine.run(Scene(tides=[tide], budget=4, policy=Everything()))
    waiting: list[int] = []
    serving: tuple[int, ...] = ()
    batches = []
    for entry in facts.entries:
        if isinstance(entry, RequestArrived):
            waiting += [entry.at_ns] * entry.count
        elif isinstance(entry, Decided) and isinstance(entry.action, Start):
            serving, waiting = tuple(waiting[:2]), waiting[2:]
        elif isinstance(entry, IterationEnded):
            assert entry.arrivals_ns == serving
            batches.append(len(serving))
    assert max(batches) == 2


@engines(simulator="the simulator's iterations are their traces")
def test_the_expected_peak_of_a_job_grows_to_the_need_of_an_iteration(engine: Engine) -> None:
    grows = Tide(name="a", steps=rise_and_fall(4), iterations=4, more=2, more_in=range(1, 4))
    other = Tide(name="b", steps=rise_and_fall(4), iterations=4)
    facts = engine.run(Scene(tides=[grows, other], budget=14, policy=Everything()))
    facts.check_all_ended()
    (grew,) = facts.events(JobGrew, "a")
    assert grew.peak_bytes >= 7 * LEASE
    after = [job for view, job in facts.seen("a") if view.now_ns > grew.at_ns]
    assert {job.profile.peak_bytes for job in after} == {grew.peak_bytes}


@engines(simulator="the simulator's iterations are all of one size")
def test_the_work_of_an_iteration_is_its_size(engine: Engine) -> None:
    tide = Tide(name="a", steps=(Step(4), Step(0)), iterations=3, more=4, more_in=range(1, 2))
    other = Tide(name="b", steps=(Step(1), Step(0)), iterations=3)
    facts = engine.run(Scene(tides=[tide, other], budget=20, policy=Everything()))
    facts.check_all_ended()
    assert round(sum(event.work or 0 for event in facts.events(IterationEnded, "a")), 2) == 1 + 2 + 1
    *_, (view, job) = facts.seen("a")
    shown = facts_of(Job(name=each.name, trace=each.trace, iterations=3) for each in (tide, other))
    reported = read_log(facts.entries, shown, view.now_ns)["a"]
    assert reported.device_ns == job.service_ns == 4 * shown[0].solo_ns


@engines(simulator="the simulator has no processes")
def test_a_job_stopped_inside_an_iteration_holds_nobody_up_and_goes_on_later(engine: Engine) -> None:
    stopped = Tide(name="a", steps=rise_and_fall(4), iterations=3, stops_in=1)
    other = Tide(name="b", steps=rise_and_fall(4), iterations=30)
    facts = engine.run(Scene(tides=[stopped, other], budget=12, policy=POLICIES.make("temporal")))
    facts.check_all_ended()
    (absent,) = facts.events(JobEvicted, "a")
    assert absent.unresponsive
    assert facts.place(facts.events(IterationEnded, "b")[-1]) < facts.place(facts.events(IterationEnded, "a")[-1])
