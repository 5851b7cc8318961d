"""A job that went to host memory gets on again, though the one that has its place never ends."""

from __future__ import annotations

import pytest

from neaptide.core.control.actions import Resume, Suspend
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import IterationEnded, JobEnded, JobSuspended
from neaptide.core.control.job import Job, JobState
from neaptide.core.control.policy import Policy
from neaptide.core.device import find_device
from neaptide.core.rules.turns import ITERATIONS
from neaptide.policies import POLICIES
from neaptide.policies.parts.turns import Turns, overdue_swap
from neaptide.simulation import Outcome, Submission, simulate
from tides import MIB
from tides import tide as tide_of
from views import job, tide, view

V100 = find_device("V100")
SECOND = 10**9
SOLO = 10  # of a job of `views`


def run(policy: Policy, changes: list[tuple[float, int]], *jobs: tuple[str, int | None, int], until: float) -> Outcome:
    """Jobs of 0.1 s an iteration: their names, iterations and ephemeral MiB beside 50 that last."""
    submissions = [
        Submission(Job(name=name, trace=tide_of(name, 20, 0.1, 50 * MIB, size * MIB, 0.5), iterations=count), at)
        for at, (name, count, size) in enumerate(jobs)
    ]
    budgets = [(int(at * SECOND), size * MIB) for at, size in changes]
    return simulate(submissions, V100, 400 * MIB, policy, until_ns=int(until * SECOND), budget_changes=budgets)


def done(outcome: Outcome, name: str, after: float = 0) -> int:
    return sum(isinstance(e, IterationEnded) and e.job == name and e.at_ns > after * SECOND for e in outcome.entries)


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("policy", ["zico", "antman", "herald"])
def test_after_a_lasting_budget_cut_endless_jobs_take_turns_on_the_device(policy: str, names: str) -> None:
    outcome = run(POLICIES.make(policy), [(2, 160)], *((name, None, 100) for name in names), until=60)
    shares = [done(outcome, name, after=2.2) for name in names]
    assert min(shares) > 500 / len(names)
    moves = [e for e in outcome.entries if isinstance(e, Decided) and isinstance(e.action, Suspend)]
    assert 4 <= len(moves) <= 60 / (0.1 * ITERATIONS) + len(names)  # no more often than it pays


@pytest.mark.parametrize("policy", ["zico", "antman", "herald"])
def test_a_suspended_job_ends_beside_an_endless_one(policy: str) -> None:
    outcome = run(POLICIES.make(policy), [(2, 160)], ("endless", None, 100), ("short", 60, 100), until=60)
    assert [e.job for e in outcome.entries if isinstance(e, JobEnded)] == ["short"]
    assert [e.action.job for e in outcome.entries if isinstance(e, Decided) and isinstance(e.action, Resume)] == [
        *("short", "endless"),
    ]


def test_under_fifo_a_suspended_job_that_was_passed_takes_the_device_back() -> None:
    changes = [(2, 160), (4, 400)]
    outcome = run(POLICIES.make("salus-fifo"), changes, ("large", None, 200), ("small", None, 100), until=60)
    assert next(e.job for e in outcome.entries if isinstance(e, JobSuspended)) == "large"
    assert min(done(outcome, name, after=4) for name in ("large", "small")) > 200


class TestOverdue:
    ENOUGH = ITERATIONS * SOLO

    def test_a_turn_is_over_when_both_jobs_have_waited_and_served_for_long_enough(self) -> None:
        one = job("b", tide(60), state=JobState.SUSPENDED, since_ns=100)
        for since, now, expected in ((0, 100, False), (0, 101, True), (50, 150, False), (50, 151, True)):
            longest = job("a", tide(60), lane_since_ns=100 + since)
            assert Turns.of(view(longest, one, now=now + self.ENOUGH)).overdue(one) is expected, (since, now)

    def test_no_job_is_overdue_alone_or_where_it_cannot_run(self) -> None:
        one = job("b", tide(60), state=JobState.SUSPENDED)
        assert not Turns.of(view(one, now=10**6)).overdue(one)
        assert not Turns.of(view(job("a"), one, now=10**6, budget=59)).overdue(one)

    def test_a_job_with_a_deadline_leaves_for_no_other(self) -> None:
        one = job("b", tide(60), state=JobState.SUSPENDED)
        assert not Turns.of(view(job("a", tide(60), deadline_ns=5), one, now=10**6)).overdue(one)
        assert Turns.of(view(job("a", tide(60)), one, now=10**6)).overdue(one)

    def test_a_job_queues_behind_one_that_will_end_and_takes_turns_with_one_that_may_not(self) -> None:
        queued = job("b", tide(60), state=JobState.QUEUED)
        assert not Turns.of(view(job("a", tide(60), iterations_left=9), queued, now=10**6)).overdue(queued)
        assert Turns.of(view(job("a", tide(60)), queued, now=10**6)).overdue(queued)

    def test_a_turn_is_longer_where_moves_were_seen_to_take_long(self) -> None:
        one = job("b", tide(60), state=JobState.QUEUED, moved_ns=1000)
        assert not Turns.of(view(job("a", tide(60)), one, now=20_000)).overdue(one)
        assert Turns.of(view(job("a", tide(60)), one, now=20_001)).overdue(one)

    def test_jobs_longest_on_the_device_leave_first_and_no_more_than_needed(self) -> None:
        jobs = [job(name, tide(10, persistent=30), lane_since_ns=at) for name, at in (("x", 5), ("y", 3), ("z", 4))]
        one = job("b", tide(10, persistent=50), state=JobState.SUSPENDED)
        swap = overdue_swap(view(*jobs, one, now=10**6))
        assert swap is not None
        assert (swap[0].name, [other.name for other in swap[1]]) == ("b", ["y", "z"])

    def test_a_turn_takes_no_room_of_an_evicted_job_that_fits_once_the_others_have_left(self) -> None:
        there = [job(name, tide(10, persistent=30), lane_since_ns=at) for at, name in enumerate("xy")]
        one = job("b", tide(10, persistent=50), state=JobState.SUSPENDED)
        evicted = job("e", tide(10, persistent=30), state=JobState.SUSPENDED, evicted=True, since_ns=10**6)
        swap = overdue_swap(view(*there, evicted, one, now=10**6))
        assert swap is not None
        assert (swap[0].name, [other.name for other in swap[1]]) == ("b", ["x", "y"])
        assert overdue_swap(view(*there, evicted, one, now=10**6, budget=89)) is None
