"""Gandiva, AntMan and Herald over time, in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from neaptide.core.control.actions import Action, SetLimit, SetPlan, Suspend
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import IterationEnded, JobArrived, JobEnded, Woken
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.policy import Policy
from neaptide.core.device import find_device
from neaptide.policies.antman import AntMan
from neaptide.policies.gandiva import Gandiva
from neaptide.policies.herald import Herald
from neaptide.policies.spatial import Spatial
from neaptide.simulation import Outcome, Submission, simulate
from tides import MIB, tide

V100 = find_device("V100")
SECOND = 10**9
SPAN = (JobArrived, JobEnded)


def run(submissions: Sequence[Submission], policy: Policy, budget_mib: int, until: float | None = None) -> Outcome:
    return simulate(
        submissions, V100, budget_mib * MIB, policy, until_ns=None if until is None else int(until * SECOND)
    )


def train(
    name: str, iterations: int | None = None, priority: int = 0, arrives: float = 0, **shape: object
) -> Submission:
    """A job whose iterations take 0.1 s and hold 10 + 100 MiB, if not told otherwise."""
    given = {"ops": 20, "seconds": 0.1, "persistent": 10 * MIB, "ephemeral": 100 * MIB, **shape}
    job = Job(name=name, trace=tide(name, **given), iterations=iterations, priority=priority)
    return Submission(job, int(arrives * SECOND))


def took(outcome: Outcome, job: str) -> list[float]:
    return [e.took_ns / SECOND for e in outcome.entries if isinstance(e, IterationEnded) and e.job == job]


def order_of(outcome: Outcome) -> list[str]:
    return [e.job for e in outcome.entries if isinstance(e, IterationEnded)]


def suspensions(outcome: Outcome) -> int:
    return sum(isinstance(e, Decided) and isinstance(e.action, Suspend) for e in outcome.entries)


class TestGandiva:
    def test_jobs_that_do_not_fit_together_take_the_device_in_slices(self) -> None:
        outcome = run([train("a", 60), train("b", 60)], Gandiva(slice_ns=2 * SECOND), 150)
        switches = sum(one != other for one, other in pairwise(order_of(outcome)))
        assert switches == 5  # 6 s each, 2 s at a time
        assert outcome.over_budget_bytes == 0

    def test_jobs_that_leave_room_for_each_other_stay_together(self) -> None:
        outcome = run([train("a", 60, fill=0.4), train("b", 60, fill=0.4)], Gandiva(slice_ns=99 * SECOND), 300)
        assert outcome.end_ns < 6.5 * SECOND
        assert suspensions(outcome) == 0

    def test_jobs_that_hurt_each_other_are_separated_after_a_trial(self) -> None:
        outcome = run([train("a", 60), train("b", 60)], Gandiva(slice_ns=2 * SECOND), 300)
        assert suspensions(outcome) >= 5
        assert max(took(outcome, "a")[3:]) < 0.11
        assert outcome.end_ns < 12.5 * SECOND

    def test_three_jobs_get_equal_slices_though_two_of_them_are_a_pair(self) -> None:
        small = [train(name, fill=0.2) for name in "ab"]
        large = train("large", ephemeral=280 * MIB)
        outcome = run([*small, large], Gandiva(slice_ns=SECOND), 300, until=20)
        assert 0.4 < len(took(outcome, "large")) / 200 < 0.6


class TestAntMan:
    def test_the_guaranteed_job_is_hardly_slowed_by_one_that_fills_the_device(self) -> None:
        outcome = run([train("guaranteed", 50, priority=1), train("other", ops=100)], AntMan(bound=1.1), 300)
        average = sum(took(outcome, "guaranteed")) / 50
        assert 0.1 <= average <= 0.1 * 1.1 + 0.005
        alone = run([train("guaranteed", 50, priority=1), train("other", ops=100)], Spatial(), 300)
        assert sum(took(alone, "guaranteed")) / 50 > 0.15

    def test_the_other_jobs_use_the_memory_that_the_guaranteed_one_leaves(self) -> None:
        outcome = run([train("guaranteed", 50, priority=1, fill=0.4), train("other", fill=0.4)], AntMan(), 300)
        assert len(took(outcome, "other")) >= 45

    def test_the_other_jobs_are_suspended_for_memory_and_later_resumed(self) -> None:
        submissions = [train("other", 30), train("guaranteed", 10, priority=1, arrives=0.55, ephemeral=285 * MIB)]
        outcome = run(submissions, AntMan(), 300)
        assert suspensions(outcome) == 1
        order = order_of(outcome)
        assert order.index("guaranteed") <= 7
        assert order[order.index("guaranteed") :][:11].count("other") <= 1  # the iteration that it was in
        assert sum(isinstance(e, JobEnded) for e in outcome.entries) == 2

    @pytest.mark.parametrize(
        ("planned", "changes"),
        [(False, [SetLimit("b", 80 * MIB), SetLimit("b", None)]), (True, [SetPlan("b", 1), SetPlan("b", 0)])],
        ids=["limit", "plan"],
    )
    def test_a_job_beside_a_guaranteed_one_goes_on_with_its_overflow_on_the_host(
        self, planned: bool, changes: list[Action]
    ) -> None:
        # Beside the guaranteed job's 110 MiB 80 are left. The other needs 110, or by its plan 60.
        away = tide("b", ops=20, seconds=0.13, persistent=10 * MIB, ephemeral=50 * MIB)
        other = train("b", iterations=60)
        job = replace(other.job, alternatives=(away,)) if planned else other.job
        outcome = run([Submission(job), train("g", 20, priority=1, arrives=1.0)], AntMan(bound=10), 190)
        assert suspensions(outcome) == 0
        decided = [e.action for e in outcome.entries if isinstance(e, Decided)]
        # When the guaranteed job comes, and when it has ended.
        assert [action for action in decided if isinstance(action, SetLimit | SetPlan)] == changes
        came, left = (next(e.at_ns for e in outcome.entries if isinstance(e, kind) and e.job == "g") for kind in SPAN)
        beside = [e for e in outcome.entries if isinstance(e, IterationEnded) and e.job == "b"]
        assert sum(came < e.at_ns < left for e in beside) > 5
        assert outcome.over_budget_bytes == 0


class TestHerald:
    def serve(self, policy: Policy, fill: float, ops: int = 100) -> tuple[float, float]:
        """Share of samples in time, and how much slower training is: 4 batches a second, 0.12 s each, within 0.2 s."""
        trace = tide("serve", ops=50, seconds=0.12, persistent=MIB, ephemeral=MIB, fill=0.6, batch=16, inference=True)
        job = Job(name="serve", trace=trace, kind=JobKind.INFERENCE, deadline_seconds=0.2)
        requests = tuple(int(n * 0.25 * SECOND) for n in range(40) for _ in range(16))
        training = train("train", ops=ops, fill=fill)
        outcome = run([Submission(job, requests_ns=requests), training], policy, 300, until=10)
        late = [
            e.at_ns - arrived > 0.2 * SECOND
            for e in outcome.entries
            if isinstance(e, IterationEnded) and e.job == "serve"
            for arrived in e.arrivals_ns
        ]
        assert len(late) >= 39 * 16
        return 1 - sum(late) / len(late), 10 / len(took(outcome, "train")) / 0.1

    @pytest.mark.parametrize("fill", [0.3, 1.0])
    def test_the_slo_holds_beside_training(self, fill: float) -> None:
        in_time, _ = self.serve(Herald(), fill)
        assert in_time >= 0.99

    def test_running_all_jobs_at_once_breaks_the_slo_that_herald_keeps(self) -> None:
        in_time, _ = self.serve(Spatial(), 1.0)
        assert in_time < 0.5

    def test_light_training_is_hardly_slowed(self) -> None:
        _, slowdown = self.serve(Herald(), 0.3)
        assert slowdown < 1.1

    def test_heavy_training_gets_the_time_that_the_slo_leaves(self) -> None:
        _, slowdown = self.serve(Herald(), 1.0)
        assert slowdown <= 2.05  # the batches need 0.48 of the device's time, which leaves 1.92

    def test_herald_wakes_a_few_times_per_batch(self) -> None:
        trace = tide("serve", ops=50, seconds=0.1, persistent=MIB, ephemeral=MIB, batch=4, inference=True)
        job = Job(name="serve", trace=trace, kind=JobKind.INFERENCE, deadline_seconds=1.0)
        requests = tuple(n * SECOND for n in range(20))
        outcome = run([Submission(job, requests_ns=requests), train("train")], Herald(), 300, until=20)
        assert sum(isinstance(e, Woken) for e in outcome.entries) <= 20 * 12
