"""Priority as a share: which priority is due, and when a job makes room for one of another priority."""

from __future__ import annotations

import pytest

from neaptide.core.control.job import JobState
from neaptide.core.rules.turns import ITERATIONS
from neaptide.policies.parts.shares import Competition, due, leaves_for, with_turns
from views import job, tide, view

FULL = tide(1, utilisation=1.0)
TURN = ITERATIONS * 10  # of a job of `views`
QUEUED, RUNNING, SUSPENDED = JobState.QUEUED, JobState.RUNNING, JobState.SUSPENDED


def test_the_priority_that_has_had_the_least_is_due_and_of_equals_the_higher() -> None:
    jobs = [job("a", priority=0), job("b", priority=1), job("c", priority=2, priority_ns=5)]
    assert [each.name for each in sorted(jobs, key=due)] == ["b", "a", "c"]


def test_a_job_of_a_higher_priority_displaces_another_until_it_has_had_more() -> None:
    low = job("low", priority_ns=10)
    assert leaves_for(low, job("high", priority=1, priority_ns=10))
    assert not leaves_for(low, job("high", priority=1, priority_ns=11))


def test_a_job_of_a_lower_priority_displaces_another_when_it_is_owed_a_turn() -> None:
    high = job("high", priority=1, priority_ns=TURN)
    assert leaves_for(high, job("low"))
    assert not leaves_for(high, job("low", priority_ns=1))


def test_a_job_has_its_turn_from_when_it_is_owed_one_until_it_has_had_as_much() -> None:
    high = job("high", priority=1, priority_ns=TURN)
    assert with_turns(view(job("low", state=SUSPENDED), high)) == {"low"}
    away = job("high", priority=1, priority_ns=TURN, state=SUSPENDED)
    assert with_turns(view(job("low", priority_ns=TURN - 1), away)) == {"low"}
    assert not with_turns(view(job("low", priority_ns=TURN), away))


class TestCompetition:
    def test_a_job_waits_for_those_of_a_priority_that_is_due_before_it(self) -> None:
        high, low = job("high", FULL, priority=1, state=RUNNING, position_ns=1), job("low", FULL, priority_ns=1)
        assert not Competition([high, low], 0).may_start(low)
        assert Competition([high, job("low", FULL)], 0).may_start(low) is False
        assert Competition([low], 0).may_start(low)

    def test_jobs_of_one_priority_do_not_wait_for_each_other(self) -> None:
        jobs = [job("a", FULL), job("b", FULL)]
        assert all(Competition(jobs, 0).may_start(each) for each in jobs)

    @pytest.mark.parametrize("slower", [1.0, 1.2])
    def test_jobs_that_leave_room_for_each_other_do_not_wait_unless_they_were_seen_to_slow_each_other(
        self, slower: float
    ) -> None:
        light = tide(1, utilisation=0.4)
        high = job("high", light, priority=1, beside={"low": slower})
        low = job("low", light, priority_ns=1)
        assert Competition([high, low], 0).may_start(low) is (slower == 1.0)

    def test_nobody_waits_for_a_job_that_does_not_begin_its_iteration(self) -> None:
        busy = job("busy", FULL, priority=1, state=RUNNING, started_ns=10)
        low = job("low", FULL, priority_ns=1)
        early = Competition([busy, low], 20)
        assert not early.may_start(low)
        assert early.wake_ns is not None
        assert Competition([busy, low], early.wake_ns).may_start(low)
        assert Competition([busy, low], early.wake_ns).wake_ns is None

    def test_nobody_waits_for_a_job_with_a_deadline(self) -> None:
        bound = job("bound", FULL, priority=1, deadline_ns=5)
        low = job("low", FULL, priority_ns=1)
        assert Competition([bound, low], 0).may_start(low)
