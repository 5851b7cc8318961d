from typing import Any

from neaptide.core.control.actions import Action, Admit, Resume, SetPlan, Suspend
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.core.rules.turns import ITERATIONS
from neaptide.policies.parts.residence import Residence, remaining_ns
from views import job, tide

QUEUED, READY, RUNNING, SUSPENDED = JobState.QUEUED, JobState.READY, JobState.RUNNING, JobState.SUSPENDED
BIG = tide(60, step_ns=1000, persistent=30)


def settle(*ranked: JobView, budget: int = 100, aged: bool = False, now: int = 0) -> tuple[list[Action], list[str]]:
    actions, here = Residence(ranked, budget, now, 16, lambda _: aged).settle()
    return actions, [each.name for each in here]


def big(name: str, iterations_left: int, state: JobState, **facts: Any) -> JobView:
    return job(name, BIG, state=state, iterations_left=iterations_left, **facts)


def test_jobs_are_admitted_by_rank_while_the_ledgers_rule_holds() -> None:
    actions, here = settle(big("a", 1, QUEUED), big("b", 2, QUEUED), job("c", tide(1), state=QUEUED))
    assert actions == [Admit("a"), Admit("c")]
    assert here == ["a", "c"]


def test_a_far_longer_job_leaves_the_device_for_a_short_one() -> None:
    assert settle(big("short", 2, QUEUED), big("long", 4, READY)) == ([Suspend("long"), Admit("short")], ["short"])
    assert settle(big("short", 2, QUEUED), big("same", 3, READY)) == ([], ["same"])


def test_jobs_leave_for_one_job_at_a_time() -> None:
    half = tide(20, step_ns=1000, persistent=30)
    waiting = [job(name, half, state=QUEUED, iterations_left=1) for name in ("first", "second")]
    inside = [job(name, half, state=READY, iterations_left=9) for name in ("third", "fourth")]
    actions, here = settle(*waiting, *inside, budget=80)
    assert [type(action) for action in actions] == [Suspend, Admit]
    assert "first" in here
    assert "second" not in here


def test_a_running_job_leaves_at_the_end_of_its_iteration_and_no_job_is_admitted_before() -> None:
    small = job("small", tide(1), state=QUEUED)
    assert settle(big("short", 1, QUEUED), small, big("long", 9, RUNNING)) == ([], ["long"])


def test_a_suspended_job_is_resumed_when_its_turn_comes() -> None:
    assert settle(big("long", 3, SUSPENDED)) == ([Resume("long")], ["long"])


def test_a_policy_does_not_resume_an_evicted_job_but_keeps_its_place() -> None:
    evicted = big("evicted", 3, SUSPENDED, evicted=True)
    assert settle(evicted, big("other", 3, QUEUED)) == ([], [])
    assert settle(evicted, big("longer", 9, READY)) == ([Suspend("longer")], [])


def test_a_job_with_a_deadline_or_a_higher_priority_need_not_be_shorter() -> None:
    serve = big("serve", 9, QUEUED, kind=JobKind.INFERENCE, deadline_ns=10, requests=(0,))
    assert settle(serve, big("long", 1, READY))[0] == [Suspend("long"), Admit("serve")]
    assert settle(big("first", 9, QUEUED, priority=1), big("long", 1, READY))[0] == [Suspend("long"), Admit("first")]
    assert settle(big("short", 1, QUEUED), big("serve", 9, READY, deadline_ns=10))[0] == []


def test_no_job_leaves_when_copying_takes_long_compared_with_its_remaining_time() -> None:
    heavy = tide(60, step_ns=1000, persistent=10**6)
    brief = job("brief", heavy, state=QUEUED, iterations_left=1)
    assert settle(brief, job("a", heavy, iterations_left=1000), budget=10**6 + 60)[0] == []
    assert settle(brief, job("a", heavy, iterations_left=3000), budget=10**6 + 60)[0] == [Suspend("a"), Admit("brief")]


def test_jobs_pass_one_that_does_not_fit_until_it_is_aged() -> None:
    here, small = big("here", 1, RUNNING), job("small", tide(1), state=QUEUED)
    assert settle(here, big("waits", 2, QUEUED), small)[0] == [Admit("small")]
    assert settle(here, big("waits", 2, QUEUED), small, aged=True)[0] == []


def test_a_job_larger_than_the_budget_delays_no_other_job() -> None:
    assert settle(job("never", tide(200), state=QUEUED), big("a", 1, QUEUED), aged=True)[0] == [Admit("a")]


def test_a_job_is_admitted_with_the_plan_that_fits() -> None:
    planned = job("planned", tide(200), tide(50), state=QUEUED)
    assert settle(planned)[0] == [SetPlan("planned", 1), Admit("planned")]


def test_a_job_of_unknown_length_is_expected_to_need_as_much_again() -> None:
    assert remaining_ns(job("a", BIG, share_ns=5000)) == 6000
    assert remaining_ns(job("a", BIG, iterations_left=3)) == 3000
    assert remaining_ns(job("a", BIG, kind=JobKind.INFERENCE, requests=(1, 2, 3))) == 3000


def test_no_training_job_is_admitted_while_better_ranked_ones_use_the_device_four_times_over() -> None:
    full = [job(str(index), tide(1, utilisation=1.0), state=QUEUED) for index in range(6)]
    serve = job("serve", tide(1), state=QUEUED, kind=JobKind.INFERENCE)
    assert settle(*full, serve)[1] == ["0", "1", "2", "3", "serve"]
    inside = job("inside", tide(1, utilisation=1.0))
    assert settle(*full, inside)[1] == ["0", "1", "2", "3", "inside"]


def test_jobs_of_unknown_length_that_do_not_fit_together_take_turns() -> None:
    waits, here = job("waits", BIG, state=SUSPENDED, since_ns=100), job("here", BIG, lane_since_ns=200, share_ns=10**9)
    turn = ITERATIONS * 1000
    assert settle(waits, here, now=200 + turn) == ([], ["here"])
    assert settle(waits, here, now=201 + turn) == ([Suspend("here"), Resume("waits")], ["waits"])
