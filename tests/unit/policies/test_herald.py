"""Herald: batches are served in time, and best-effort work has all that this leaves."""

from __future__ import annotations

from typing import Any

from neaptide.core.control.actions import Admit, CapInFlight, SetGate, Start, Suspend, WakeAt
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.herald import Herald, slack_ns
from views import job, tide, view

RUNNING = JobState.RUNNING
MS = 10**6
POLICY = Herald(urgent=0.25, in_flight=0.05, shortest_wait_ns=MS)


def serving(**facts: Any) -> JobView:
    """100 ms for a batch of 4, to be answered within a second."""
    profile = tide(10, persistent=10, step_ns=100 * MS, batch=4)
    return job("slo", profile, **{"kind": JobKind.INFERENCE, "deadline_ns": 1000 * MS, **facts})


def training(**facts: Any) -> JobView:
    """100 kernels of 1 ms each."""
    return job("t", tide(30, persistent=10, step_ns=100 * MS, kernels=100), **facts)


class TestSlack:
    def test_slack_is_the_time_to_the_deadline_less_the_remaining_work(self) -> None:
        assert slack_ns(serving(requests=(0, 1)), 50 * MS) == (850 * MS, 1000 * MS)

    def test_samples_of_a_running_batch_count_by_its_progress(self) -> None:
        running = serving(state=RUNNING, serving=(0,), position_ns=40 * MS)
        assert slack_ns(running, 100 * MS) == (840 * MS, 1000 * MS)

    def test_later_batches_wait_for_the_ones_before(self) -> None:
        running = serving(state=RUNNING, serving=(0,), position_ns=40 * MS, requests=(1,) * 9)
        assert slack_ns(running, 0) == (1 + 1000 * MS - 60 * MS - 300 * MS, 1000 * MS)

    def test_a_job_without_samples_has_no_slack(self) -> None:
        assert slack_ns(serving(), 0) is None


class TestInference:
    def test_a_full_batch_is_served_at_once(self) -> None:
        assert Start("slo") in POLICY.decide(view(serving(requests=(0, 0, 0, 0))))

    def test_a_batch_gathers_until_its_slack_is_about_to_become_urgent(self) -> None:
        assert POLICY.decide(view(serving(requests=(0,)))) == [WakeAt(650 * MS)]
        assert Start("slo") in POLICY.decide(view(serving(requests=(0,)), now=650 * MS))

    def test_a_batch_gathers_for_less_time_when_batches_are_slow_beside_others(self) -> None:
        slowed = serving(requests=(0,), recent_ns=180 * MS)
        assert POLICY.decide(view(slowed)) == [WakeAt(570 * MS)]
        assert Start("slo") in POLICY.decide(view(slowed, now=570 * MS))

    def test_a_job_with_an_slo_comes_to_the_device_before_others(self) -> None:
        jobs = [each(state=JobState.QUEUED, arrived_ns=n) for n, each in enumerate((training, serving))]
        assert POLICY.decide(view(*jobs, budget=60)) == [Admit("slo"), Admit("t"), Start("t")]
        assert POLICY.decide(view(*jobs, budget=59)) == [Admit("slo")]

    def test_a_best_effort_job_without_a_place_beside_an_slo_job_is_suspended(self) -> None:
        waiting = serving(state=JobState.QUEUED)
        assert POLICY.decide(view(training(), waiting, budget=59)) == [Suspend("t"), Admit("slo")]


class TestBestEffort:
    def test_best_effort_work_runs_beside_a_batch_with_slack(self) -> None:
        running = serving(state=RUNNING, serving=(0,))
        assert POLICY.decide(view(running, training())) == [CapInFlight("t", 32), Start("t"), WakeAt(650 * MS)]

    def test_best_effort_heavy_ops_wait_when_the_slack_is_short(self) -> None:
        running = serving(state=RUNNING, serving=(0,))
        actions = POLICY.decide(view(running, training(state=RUNNING), now=700 * MS))
        assert SetGate("t", False) in actions

    def test_best_effort_work_starts_no_iteration_when_the_slack_is_short(self) -> None:
        for now, starts in ((600 * MS, True), (700 * MS, False)):
            actions = POLICY.decide(view(serving(state=RUNNING, serving=(0,)), training(), now=now))
            assert (Start("t") in actions) == starts

    def test_best_effort_jobs_go_on_when_the_batch_is_done(self) -> None:
        held = training(state=RUNNING, gate_open=False, in_flight=8)
        assert POLICY.decide(view(serving(), held, now=700 * MS)) == [SetGate("t", True), CapInFlight("t", None)]

    def test_best_effort_kernels_in_flight_shrink_with_the_slack(self) -> None:
        caps = []
        for now in (0, 400, 640, 800, 890, 950):
            actions = POLICY.decide(view(serving(state=RUNNING, serving=(0,)), training(), now=now * MS))
            caps += [action.kernels for action in actions if isinstance(action, CapInFlight)]
        assert caps == [32, 16, 8, 4, 1, 1]

    def test_without_an_slo_nothing_holds_best_effort_work_back(self) -> None:
        assert POLICY.decide(view(training())) == [Start("t")]

    def test_a_job_with_an_slo_that_is_not_admitted_yet_holds_no_gate(self) -> None:
        waiting = serving(state=JobState.QUEUED, requests=(0,))
        actions = POLICY.decide(view(training(state=RUNNING), waiting, budget=59, now=2000 * MS))
        assert SetGate("t", False) not in actions

    def test_best_effort_work_leaves_the_memory_that_inference_will_need(self) -> None:
        assert POLICY.decide(view(serving(), training(), budget=60)) == [Start("t")]
        assert POLICY.decide(view(serving(), training(), budget=59)) == [Suspend("t")]
