"""Fair queuing in the ledger: what a job and a priority have had, and what they are owed when they return."""

from __future__ import annotations

import pytest

from builders import Op, make_trace
from neaptide.core.control.actions import Action, Admit, Resume, Start, Suspend
from neaptide.core.control.engine import Observation
from neaptide.core.control.events import IterationEnded, JobArrived, JobEvicted, JobResumed, JobSuspended, Woken
from neaptide.core.control.job import Job
from neaptide.core.control.ledger import Ledger
from neaptide.core.control.view import JobView
from neaptide.core.rules.shares import HIGHEST, weight
from neaptide.core.rules.turns import ITERATIONS

SECOND = 10**9


def ledger(**priorities: int) -> Ledger:
    """Jobs of these priorities, admitted, whose iterations take a second alone."""
    trace = make_trace([Op(seconds=1.0)])
    made = Ledger([Job(name=name, trace=trace, priority=each) for name, each in priorities.items()], budget_bytes=100)
    for name in priorities:
        made.apply(JobArrived(0, name))
        do(made, Admit(name))
    return made


def do(made: Ledger, *actions: Action, at_ns: int = 0) -> None:
    for action in actions:
        assert made.refusal(action, at_ns) is None
        made.commit(action, at_ns)


def serve(made: Ledger, name: str, iterations: int = 1) -> None:
    do(made, Start(name))
    made.apply(IterationEnded(0, name, iterations * SECOND, iterations=iterations))


def seen(made: Ledger, name: str) -> JobView:
    view = made.view(Woken(0), {job: Observation(0, 0) for job in made.visible_jobs()})
    return next(job for job in view.jobs if job.name == name)


def test_a_step_of_priority_doubles_the_weight_up_to_a_bound() -> None:
    assert [weight(priority) for priority in (-1, 0, 1, 2)] == [0.5, 1, 2, 4]
    assert weight(2**31 - 1) == weight(HIGHEST)
    assert weight(-(2**31)) == 1 / weight(HIGHEST)


def test_a_priority_counts_the_service_of_its_jobs_over_their_weights() -> None:
    made = ledger(high=1, a=0, b=0)
    serve(made, "high", 4)
    serve(made, "a", 2)
    assert seen(made, "high").priority_ns == 2 * SECOND
    assert seen(made, "a").priority_ns == seen(made, "b").priority_ns == 1 * SECOND


def test_a_priority_that_comes_later_starts_level_with_the_least_served() -> None:
    made = ledger(high=1, low=0)
    serve(made, "high", 8)
    serve(made, "low", 3)
    made.add(Job(name="new", trace=make_trace([Op(seconds=1.0)]), priority=2))
    made.apply(JobArrived(0, "new"))
    assert seen(made, "new").priority_ns == 3 * SECOND


def test_a_priority_that_does_not_use_its_share_is_owed_two_turns_at_most() -> None:
    made = ledger(high=1, low=0)
    serve(made, "low", 1000)
    assert seen(made, "high").priority_ns == (1000 - ITERATIONS) * SECOND


@pytest.mark.parametrize("unresponsive", [True, False])
def test_a_job_that_was_stopped_is_owed_nothing_and_one_that_was_evicted_a_turn(unresponsive: bool) -> None:
    made = ledger(a=0, b=0)
    made.apply(JobEvicted(0, "a", unresponsive=unresponsive))
    serve(made, "b", 1000)
    made.apply(JobResumed(0, "a"))
    assert seen(made, "a").share_ns == (1000 if unresponsive else 1000 - ITERATIONS) * SECOND


def test_a_job_that_a_policy_brings_back_is_owed_a_turn_though_the_other_has_just_left() -> None:
    made = ledger(a=0, b=0)
    do(made, Suspend("a"))
    serve(made, "b", 1000)
    do(made, Suspend("b"), Resume("a"))
    assert seen(made, "a").share_ns == (1000 - ITERATIONS) * SECOND


def test_the_ledger_measures_how_long_a_move_takes() -> None:
    made = ledger(a=0)
    do(made, Suspend("a"), at_ns=10)
    made.apply(JobSuspended(17, "a"))
    assert seen(made, "a").moved_ns == 7
    do(made, Resume("a"), at_ns=20)
    made.apply(JobResumed(50, "a"))
    assert seen(made, "a").moved_ns == 30
