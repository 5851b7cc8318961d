"""AntMan: the guaranteed job runs as if alone, and opportunistic ones have what it leaves."""

from __future__ import annotations

from typing import Any

from neaptide.core.control.actions import Admit, Resume, SetGate, SetLimit, SetPlan, Start, Suspend
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.antman import AntMan
from views import job, tide, view

RUNNING, QUEUED, SUSPENDED = JobState.RUNNING, JobState.QUEUED, JobState.SUSPENDED


def guaranteed(**facts: Any) -> JobView:
    return job("g", tide(50, persistent=10), **{"priority": 1, **facts})


def other(name: str, ephemeral: int = 20, persistent: int = 10, **facts: Any) -> JobView:
    return job(name, tide(ephemeral, persistent=persistent), **facts)


class TestMemory:
    def test_the_job_with_the_highest_priority_is_guaranteed_and_its_whole_peak_is_reserved(self) -> None:
        fits, large = other("a", 30, 10, state=QUEUED), other("b", 31, 10, state=QUEUED)
        assert AntMan().decide(view(large, fits, guaranteed(state=QUEUED))) == [
            *(Admit("g"), Admit("a")),
            *(Start("g"), Start("a")),
        ]

    def test_the_oldest_of_equals_is_guaranteed(self) -> None:
        jobs = other("a", 60, 0, state=QUEUED), other("b", 60, 0, state=QUEUED, arrived_ns=1)
        assert AntMan().decide(view(*jobs)) == [Admit("a"), Start("a")]

    def test_opportunistic_iterations_run_side_by_side_only_while_they_fit(self) -> None:
        jobs = [other(name, 8, 5, state=RUNNING if name == "a" else JobState.READY) for name in "abcd"]
        assert AntMan().decide(view(guaranteed(state=RUNNING), *jobs)) == [Start("b")]

    def test_a_job_without_a_place_is_suspended_at_the_end_of_its_iteration(self) -> None:
        way = other("a", 30, 30)
        assert AntMan().decide(view(other("a", 30, 30, state=RUNNING), guaranteed(state=QUEUED))) == [
            Admit("g"),  # the ledger's rule holds; the engine gives it memory as the other's iteration gives it back
            Start("g"),
        ]
        assert AntMan().decide(view(way, guaranteed(state=RUNNING))) == [Suspend("a")]

    def test_a_suspended_best_effort_job_is_resumed_when_there_is_room(self) -> None:
        away = other("a", 30, 30, state=SUSPENDED)
        assert AntMan().decide(view(away)) == [Resume("a"), Start("a")]

    def test_a_policy_leaves_an_evicted_job_to_the_engine(self) -> None:
        assert AntMan().decide(view(other("a", state=SUSPENDED, evicted=True))) == []


class TestOverflow:
    """Job a needs 50 bytes, or 38 if it sends 12 of them to the host, or 30 with still more of them there."""

    PLANS = (tide(30, persistent=20), tide(18, persistent=20, step_ns=12), tide(10, persistent=20, step_ns=15))

    def test_a_job_that_does_not_fit_beside_the_guaranteed_one_sends_its_overflow_to_the_host(self) -> None:
        way = job("a", *self.PLANS)
        assert AntMan().decide(view(way, guaranteed(state=RUNNING))) == [SetPlan("a", 1), Start("a")]
        assert AntMan().decide(view(way, guaranteed(state=RUNNING), budget=97)) == [SetPlan("a", 2), Start("a")]

    def test_a_job_is_suspended_as_a_whole_only_if_no_plan_fits(self) -> None:
        assert AntMan().decide(view(job("a", *self.PLANS), guaranteed(state=RUNNING), budget=89)) == [Suspend("a")]

    def test_the_plan_changes_between_iterations_only(self) -> None:
        running = job("a", *self.PLANS, state=RUNNING)
        assert AntMan().decide(view(running, guaranteed(state=QUEUED))) == [Admit("g"), Start("g")]

    def test_the_tensors_of_a_job_stay_on_the_device_again_when_there_is_room(self) -> None:
        overflows = job("a", *self.PLANS, plan=1)
        assert AntMan().decide(view(overflows, guaranteed(state=RUNNING), budget=110)) == [SetPlan("a", 0), Start("a")]
        assert AntMan().decide(view(overflows)) == [SetPlan("a", 0), Start("a")]  # it is the guaranteed one now

    def test_without_a_plan_that_fits_it_is_limited_to_what_is_left_and_the_rest_overflows(self) -> None:
        """40 of 100 bytes are left beside the guaranteed job's peak."""
        way = other("a", 30, 30)
        assert AntMan().decide(view(way, guaranteed(state=RUNNING), overflow=True)) == [SetLimit("a", 40), Start("a")]
        new = other("a", 30, 30, state=QUEUED)
        assert AntMan().decide(view(new, guaranteed(state=RUNNING), overflow=True)) == [
            *(SetLimit("a", 40), Admit("a"), Start("a"))
        ]
        limited = other("a", 30, 30, limit_bytes=40)
        assert AntMan().decide(view(limited, guaranteed(state=RUNNING), overflow=True)) == [Start("a")]

    def test_the_limit_goes_when_there_is_room(self) -> None:
        limited = other("a", 30, 30, limit_bytes=40)
        assert AntMan().decide(view(limited, guaranteed(state=RUNNING), budget=120, overflow=True)) == [
            *(SetLimit("a", None), Start("a"))
        ]
        assert AntMan().decide(view(limited, overflow=True)) == [
            SetLimit("a", None),
            Start("a"),
        ]  # it is guaranteed now

    def test_a_job_of_the_guaranteed_ones_priority_is_not_opportunistic_and_waits_for_a_turn(self) -> None:
        equal = other("a", 30, 30, priority=1)
        assert AntMan().decide(view(guaranteed(state=RUNNING), equal, overflow=True)) == [Suspend("a")]

    def test_a_job_whose_turn_it_is_comes_when_the_one_before_it_has_left(self) -> None:
        # The persistent bytes of both fit beside either's iteration. On the device together, neither would wait for a
        # turn, so that the older one would be the first again.
        older = job("o", tide(60, persistent=20), state=RUNNING)
        waits = job("w", tide(60, persistent=20), state=QUEUED, arrived_ns=1, since_ns=1)
        late = 51 * older.profile.solo_ns + 10**12
        assert AntMan().decide(view(older, waits, now=late)) == []
        ended = job("o", tide(60, persistent=20))
        assert AntMan().decide(view(ended, waits, now=late)) == [Suspend("o"), Admit("w"), Start("w")]

    def test_a_suspended_job_gets_its_limit_or_loses_it_before_it_comes_back(self) -> None:
        limited = other("a", 30, 30, limit_bytes=40, state=SUSPENDED)
        assert AntMan().decide(view(limited, overflow=True)) == [
            *(SetLimit("a", None), Resume("a"), Start("a"))  # its turn has come
        ]
        whole = other("a", 30, 30, state=SUSPENDED)
        assert AntMan().decide(view(whole, guaranteed(state=RUNNING), overflow=True)) == [
            *(SetLimit("a", 40), Resume("a"), Start("a"))
        ]
        evicted = other("a", 30, 30, limit_bytes=40, state=SUSPENDED, evicted=True)
        assert AntMan().decide(view(evicted, overflow=True)) == []  # inside an iteration

    def test_the_limit_changes_between_iterations_only(self) -> None:
        limited = other("a", 30, 30, limit_bytes=40, state=RUNNING)
        assert AntMan().decide(view(limited, overflow=True)) == []

    def test_no_limit_grows_while_an_iteration_holds_more_than_is_left_after_a_budget_cut(self) -> None:
        """Of 80 bytes 20 are left beside the guaranteed job's peak, but the job in front still holds 30 at rest."""
        limited = other("b", 30, 0, limit_bytes=10)
        for state, actions in ((RUNNING, []), (JobState.READY, [Suspend("a"), SetLimit("b", 20)])):
            jobs = guaranteed(state=RUNNING), other("a", 40, 30, state=state), limited
            assert AntMan().decide(view(*jobs, budget=80, overflow=True)) == actions

    def test_a_plan_that_fits_is_taken_before_a_limit(self) -> None:
        way = job("a", *self.PLANS)
        assert AntMan().decide(view(way, guaranteed(state=RUNNING), overflow=True)) == [SetPlan("a", 1), Start("a")]

    def test_a_limit_leaves_the_jobs_before_it_what_they_need(self) -> None:
        """35 of the 40 bytes are at rest; the other 5 are for the iterations of both, one after the other."""
        ways = other("a", 5, 20), other("b", 30, 15)
        assert AntMan().decide(view(*ways, guaranteed(state=RUNNING), overflow=True)) == [
            *(SetLimit("b", 20), Start("a"))
        ]

    def test_a_job_whose_persistent_bytes_do_not_fit_is_suspended_as_a_whole(self) -> None:
        way = other("a", 10, 41)
        assert AntMan().decide(view(way, guaranteed(state=RUNNING), overflow=True)) == [Suspend("a")]

    def test_the_guaranteed_job_has_its_first_plan_if_that_fills_the_budget(self) -> None:
        way = job("g", tide(50, persistent=10), tide(30, persistent=10, step_ns=12), plan=1)
        assert AntMan().decide(view(way, budget=60)) == [SetPlan("g", 0), Start("g")]
        assert AntMan().decide(view(way, budget=59)) == [Start("g")]


class TestSlowdown:
    def test_opportunistic_jobs_are_held_while_the_guaranteed_one_is_too_slow(self) -> None:
        slow = guaranteed(busy_ns=111, service_ns=100)
        assert AntMan(bound=1.1).decide(view(slow, other("a", state=RUNNING))) == [SetGate("a", False), Start("g")]

    def test_a_job_without_a_place_beside_the_guaranteed_one_may_end_its_iteration(self) -> None:
        slow = guaranteed(state=RUNNING, busy_ns=111, service_ns=100)
        assert AntMan(bound=1.1).decide(view(slow, other("a", 31, state=RUNNING))) == []

    def test_opportunistic_jobs_go_on_when_the_guaranteed_one_has_caught_up(self) -> None:
        fine = guaranteed(busy_ns=110, service_ns=100)
        jobs = other("a", 9, state=RUNNING, gate_open=False), other("b", 9)
        assert AntMan(bound=1.1).decide(view(fine, *jobs)) == [SetGate("a", True), Start("g"), Start("b")]

    def test_the_running_iteration_counts_by_its_progress(self) -> None:
        facts = {"state": RUNNING, "busy_ns": 100, "service_ns": 100, "started_ns": 1000}
        late, on_time = guaranteed(position_ns=10, **facts), guaranteed(position_ns=20, **facts)
        assert AntMan().decide(view(late, other("a"), now=1022)) == [SetGate("a", False)]
        assert AntMan().decide(view(on_time, other("a"), now=1022)) == [Start("a")]

    def test_no_job_is_held_while_the_guaranteed_job_has_no_work(self) -> None:
        idle = guaranteed(kind=JobKind.INFERENCE, busy_ns=500, service_ns=100)
        assert AntMan().decide(view(idle, other("a", gate_open=False))) == [SetGate("a", True), Start("a")]

    def test_the_gate_of_a_job_that_becomes_guaranteed_opens(self) -> None:
        held = other("a", state=RUNNING, gate_open=False)
        assert AntMan().decide(view(held)) == [SetGate("a", True)]
