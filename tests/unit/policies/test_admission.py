"""Which jobs leave after a budget cut, and which return."""

from __future__ import annotations

import pytest

from neaptide.core.control.job import JobState
from neaptide.policies.parts.admission import over_budget, resumable
from views import job, tide, view

READY, RUNNING, SUSPENDED = JobState.READY, JobState.RUNNING, JobState.SUSPENDED


@pytest.mark.parametrize(("budget", "left"), [(90, []), (89, ["c"]), (70, ["c"]), (69, ["c", "b"])])
def test_after_a_budget_cut_the_fewest_and_youngest_jobs_leave(budget: int, left: list[str]) -> None:
    """Three jobs of 20 persistent bytes and a tide of 30: two fit in 70 bytes, three in 90."""
    jobs = [job(name, tide(30, persistent=20), state=READY, arrived_ns=at) for at, name in enumerate("abc")]
    assert [each.name for each in over_budget(view(*jobs, budget=budget))] == left


def test_a_ready_job_leaves_before_a_running_one_that_is_younger() -> None:
    jobs = [
        job("a", tide(30, persistent=20), state=READY, arrived_ns=1),
        job("b", tide(30, persistent=20), state=RUNNING, arrived_ns=2),
    ]
    assert [each.name for each in over_budget(view(*jobs, budget=69))] == ["a"]


@pytest.mark.parametrize(("budget", "back"), [(69, []), (70, ["late"]), (90, ["late", "early"])])
def test_the_job_that_was_suspended_first_returns_first_when_it_fits_to_the_byte(budget: int, back: list[str]) -> None:
    jobs = [
        job("runs", tide(30, persistent=20), state=RUNNING),
        job("early", tide(30, persistent=20), state=SUSPENDED, since_ns=9),
        job("late", tide(30, persistent=20), state=SUSPENDED, since_ns=3),
    ]
    assert [each.name for each in resumable(view(*jobs, budget=budget))] == back


def test_no_job_returns_to_the_room_of_an_evicted_one_that_fits() -> None:
    """Beside 20 and a tide of 30 the evicted job needs 20 more, and then 20 are left, or 19."""
    jobs = [
        job("runs", tide(30, persistent=20), state=RUNNING),
        job("first", tide(30, persistent=20), state=SUSPENDED, since_ns=3),
        job("evicted", tide(30, persistent=20), state=SUSPENDED, since_ns=9, evicted=True),
    ]
    assert resumable(view(*jobs, budget=89)) == []
    assert [each.name for each in resumable(view(*jobs, budget=90))] == ["first"]
    # An evicted job that does not fit keeps nobody away.
    large = job("evicted", tide(60, persistent=20), state=SUSPENDED, evicted=True)
    assert [each.name for each in resumable(view(*jobs[:2], large, budget=89))] == ["first"]
