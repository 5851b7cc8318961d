"""AntMan: the guaranteed job runs as if alone, and opportunistic ones have what it leaves."""

from __future__ import annotations

from typing import Any

from neaptide.core.control.actions import Admit, Resume, SetGate, SetPlan, Start, Suspend
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.antman import AntMan
from views import job, tide, view

RUNNING, QUEUED = JobState.RUNNING, JobState.QUEUED


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
        away = other("a", 30, 30, state=JobState.SUSPENDED)
        assert AntMan().decide(view(away)) == [Resume("a"), Start("a")]

    def test_a_policy_leaves_an_evicted_job_to_the_engine(self) -> None:
        assert AntMan().decide(view(other("a", state=JobState.SUSPENDED, evicted=True))) == []


class TestOverflow:
    """Job a needs 50 bytes, or 38 if it sends 12 of them to the host, or 30 with still more of them there."""

    PLANS = (tide(30, persistent=20), tide(18, persistent=20, step_ns=12), tide(10, persistent=20, step_ns=15))

    def test_a_job_that_does_not_fit_beside_the_guaranteed_one_sends_its_overflow_to_the_host(self) -> None:
        way = job("a", *self.PLANS)
        assert AntMan().decide(view(way, guaranteed(state=RUNNING))) == [SetPlan("a", 1), Start("a")]
        assert AntMan().decide(view(way, guaranteed(state=RUNNING), budget=97)) == [SetPlan("a", 2), Start("a")]

    def test_it_is_suspended_as_a_whole_only_if_no_plan_fits(self) -> None:
        assert AntMan().decide(view(job("a", *self.PLANS), guaranteed(state=RUNNING), budget=89)) == [Suspend("a")]

    def test_the_plan_changes_between_iterations_only(self) -> None:
        running = job("a", *self.PLANS, state=RUNNING)
        assert AntMan().decide(view(running, guaranteed(state=QUEUED))) == [Admit("g"), Start("g")]

    def test_its_tensors_stay_on_the_device_again_when_there_is_room(self) -> None:
        overflows = job("a", *self.PLANS, plan=1)
        assert AntMan().decide(view(overflows, guaranteed(state=RUNNING), budget=110)) == [SetPlan("a", 0), Start("a")]
        assert AntMan().decide(view(overflows)) == [SetPlan("a", 0), Start("a")]  # it is the guaranteed one now

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
