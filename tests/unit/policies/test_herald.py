"""Herald: inference is in the deadline class, batches start in time, and best-effort work in flight is bounded."""

from __future__ import annotations

from typing import Any

from neaptide.core.control.actions import Admit, CapInFlight, SetClass, SetGate, Start, Suspend, WakeAt
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.herald import Herald
from neaptide.policies.parts.deadlines import kernels_ahead
from views import job, tide, view

RUNNING = JobState.RUNNING
MS = 10**6
POLICY = Herald(spare=0.25, shortest_wait_ns=MS)


def serving(**facts: Any) -> JobView:
    """100 ms for a batch of 4, to be answered within a second."""
    profile = tide(10, persistent=10, step_ns=100 * MS, batch=4)
    given = {"kind": JobKind.INFERENCE, "deadline_ns": 1000 * MS, "in_deadline_class": True, **facts}
    return job("slo", profile, **given)


def training(**facts: Any) -> JobView:
    """1000 kernels of 0.1 ms each."""
    given = {"in_flight": 20, **facts}
    return job("t", tide(30, persistent=10, step_ns=100 * MS, kernels=1000), **given)


class TestInference:
    def test_a_job_with_an_slo_is_put_into_the_deadline_class_when_it_comes_to_the_device(self) -> None:
        queued = serving(state=JobState.QUEUED, in_deadline_class=False)
        assert POLICY.decide(view(queued)) == [Admit("slo"), SetClass("slo", True)]

    def test_a_full_batch_is_served_at_once(self) -> None:
        assert POLICY.decide(view(serving(requests=(0, 0, 0, 0)))) == [Start("slo")]

    def test_a_batch_gathers_until_waiting_longer_is_unsafe(self) -> None:
        assert POLICY.decide(view(serving(requests=(0,)))) == [WakeAt(650 * MS)]
        assert POLICY.decide(view(serving(requests=(0,)), now=650 * MS)) == [Start("slo")]

    def test_a_batch_gathers_for_less_time_when_batches_are_slow_beside_others(self) -> None:
        assert POLICY.decide(view(serving(requests=(0,), recent_ns=180 * MS))) == [WakeAt(570 * MS)]

    def test_a_job_with_an_slo_comes_to_the_device_before_others(self) -> None:
        jobs = [
            training(state=JobState.QUEUED, in_flight=None),
            serving(state=JobState.QUEUED, arrived_ns=1, in_deadline_class=False),
        ]
        first = [Admit("slo"), Admit("t"), SetClass("slo", True), Start("t")]
        assert POLICY.decide(view(*jobs, budget=60)) == first
        assert POLICY.decide(view(*jobs, budget=59)) == [Admit("slo"), SetClass("slo", True)]

    def test_a_best_effort_job_without_a_place_beside_an_slo_job_is_suspended(self) -> None:
        waiting = serving(state=JobState.QUEUED)
        assert POLICY.decide(view(training(), waiting, budget=59)) == [Suspend("t"), Admit("slo")]


class TestBestEffort:
    def test_heavy_ops_wait_from_the_start_of_a_batch_to_its_end_while_iterations_go_on(self) -> None:
        starts = POLICY.decide(view(serving(requests=(0, 0, 0, 0)), training()))
        assert starts == [Start("slo"), SetGate("t", False), Start("t")]
        running = serving(state=RUNNING, serving=(0,))
        assert POLICY.decide(view(running, training(gate_open=False))) == [Start("t")]
        ended = training(state=RUNNING, gate_open=False)
        assert POLICY.decide(view(serving(), ended)) == [SetGate("t", True)]

    def test_samples_that_wait_for_a_full_batch_hold_nothing_back(self) -> None:
        assert POLICY.decide(view(serving(requests=(0,)), training(state=RUNNING))) == [WakeAt(650 * MS)]

    def test_work_in_flight_takes_at_most_2_ms_or_one_kernel_while_an_slo_job_is_attached(self) -> None:
        assert POLICY.decide(view(serving(), training(state=RUNNING, in_flight=None))) == [CapInFlight("t", 20)]
        assert POLICY.decide(view(training(state=RUNNING))) == [CapInFlight("t", None)]
        slow = job("slow", tide(30, step_ns=100 * MS, kernels=10, longest_ns=30 * MS))
        assert kernels_ahead(slow) == 3
        assert kernels_ahead(job("short", tide(30, step_ns=MS, kernels=1000))) is None

    def test_without_an_slo_nothing_holds_best_effort_work_back(self) -> None:
        assert POLICY.decide(view(training(in_flight=None))) == [Start("t")]
