"""Salus over time, in the simulator: the known faults of the original (FACTS 3) are gone, and its figures come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import msgspec
import pytest
from benchmarks._salus_jobs import SALUS_WORKLOADS, salus_jobs

from neaptide.core.control.actions import Action, Admit, Start
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import IterationEnded, JobEnded, JobFailed, Woken
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.curve import MemoryCurve
from neaptide.core.traces.profile import Profile
from neaptide.core.traces.trace import Trace
from neaptide.core.units import GIB
from neaptide.policies.salus import Order, Salus
from neaptide.simulation import Outcome, Submission, simulate
from tides import MIB, tide

V100 = find_device("V100")
SECOND = 10**9


def run(submissions: Sequence[Submission], policy: Policy, budget_mib: int, **options: object) -> Outcome:
    return simulate(submissions, V100, budget_mib * MIB, policy, **options)  # type: ignore[arg-type]


def train(name: str, iterations: int | None, arrives: float = 0, **shape: object) -> Submission:
    """A job whose iterations take 0.1 s and hold 10 + 100 MiB, if not told otherwise."""
    given = {"ops": 5, "seconds": 0.1, "persistent": 10 * MIB, "ephemeral": 100 * MIB, **shape}
    return Submission(Job(name=name, trace=tide(name, **given), iterations=iterations), int(arrives * SECOND))


def ends(outcome: Outcome) -> dict[str, float]:
    return {entry.job: entry.at_ns / SECOND for entry in outcome.entries if isinstance(entry, JobEnded)}


def first_start(outcome: Outcome, job: str) -> float:
    return next(e.at_ns for e in outcome.entries if isinstance(e, Decided) and e.action == Start(job)) / SECOND


def done(outcome: Outcome, since: float) -> list[str]:
    """Whose iterations ended, in order, from a time on."""
    return [e.job for e in outcome.entries if isinstance(e, IterationEnded) and e.at_ns >= since * SECOND]


class TestFaultsOfTheOriginalAreGone:
    @pytest.mark.parametrize(("patience", "soonest", "latest"), [(5.0, 5.0, 7.0), (1e9, 19.0, 99.0)])
    def test_a_large_job_does_not_starve_beside_a_stream_of_small_ones(
        self, patience: float, soonest: float, latest: float
    ) -> None:
        """Small ones fill the device for 20 s; without ageing (the second case) the large one waits for the last."""
        small = [train(f"small{n}", 20, arrives=n) for n in range(20)]
        large = train("large", 10, arrives=0.5, ephemeral=350 * MIB)
        outcome = run([*small, large], Salus(patience=patience, short_ns=SECOND), 400)
        assert soonest <= first_start(outcome, "large") - 0.5 < latest
        assert len(ends(outcome)) == 21
        assert outcome.over_budget_bytes == 0

    def test_a_long_job_makes_progress_under_srtf_beside_a_stream_of_short_ones(self) -> None:
        short = [train(f"short{n}", 10, arrives=n) for n in range(60)]
        submissions = [train("long", 20), *short]
        assert ends(run(submissions, Salus(Order.SRTF, patience=1e9), 400))["long"] > 50
        assert ends(run(submissions, Salus(Order.SRTF, patience=10, short_ns=SECOND), 400))["long"] < 30

    def test_a_job_of_unknown_length_does_not_delay_others_under_srtf(self) -> None:
        outcome = run([train("endless", None), train("said", 10, arrives=1)], Salus(Order.SRTF), 400)
        assert ends(outcome)["said"] < 2.2

    def test_a_newcomer_under_fair_gets_its_share_and_no_more(self) -> None:
        outcome = run([train("old", 60), train("new", 20, arrives=3)], Salus(Order.FAIR), 400)
        after = done(outcome, since=3.2)[:20]
        assert after.count("new") == 10
        assert after.count("old") == 10

    def test_an_idle_instance_gains_no_credit_for_its_idle_time(self) -> None:
        serving = tide("serving", ops=5, seconds=0.1, persistent=MIB, ephemeral=MIB, inference=True)
        instance = Job(name="new", trace=serving, kind=JobKind.INFERENCE)
        burst = Submission(instance, requests_ns=(0, *(3 * SECOND + n for n in range(20))))
        outcome = run([train("old", 60), burst], Salus(Order.FAIR), 400)
        assert done(outcome, since=3.2)[:20].count("old") == 10

    @pytest.mark.parametrize("order", [Order.PACK, Order.SRTF, Order.FAIR])
    def test_an_iteration_larger_than_expected_makes_no_job_fail(self, order: Order) -> None:
        """Jobs that need twice what they said: one waits for the other, within the budget, and all end."""
        jobs = [train(name, 10, ops=40) for name in "abc"]
        outcome = run(jobs, Misled(Salus(order)), 260)
        assert set(ends(outcome)) == {"a", "b", "c"}
        assert not [entry for entry in outcome.entries if isinstance(entry, JobFailed)]
        assert outcome.over_budget_bytes == 0

    @pytest.mark.parametrize("order", Order)
    def test_the_policy_decides_only_when_something_happens(self, order: Order) -> None:
        outcome = run([train(name, 10) for name in "abcd"], Salus(order), 230)
        assert not [entry for entry in outcome.entries if isinstance(entry, Woken)]
        assert outcome.decisions <= 4 * (10 * 2 + 2)  # phases and ends of iterations; arrivals and ends of jobs

    def test_lanes_merge_for_a_job_too_large_for_any_and_spread_when_it_has_gone(self) -> None:
        small = [train(name, 200) for name in "ab"]
        large = train("large", 5, arrives=1, ephemeral=300 * MIB)
        policy = Salus(patience=1.0, short_ns=SECOND)
        outcome = run([*small, large], policy, 330)
        assert ends(outcome)["large"] < 3.2
        side_by_side = [e.took_ns for e in outcome.entries if isinstance(e, IterationEnded) and e.job in "ab"]
        assert max(side_by_side[-50:]) > 0.15 * SECOND  # both fill the device, so beside each other they are slow

    @pytest.mark.parametrize("order", [Order.PACK, Order.SRTF, Order.FAIR, Order.ROUND_ROBIN])
    def test_every_job_ends_when_the_budget_shrinks_and_grows_again(self, order: Order) -> None:
        changes = ((SECOND, 130 * MIB), (2 * SECOND, 110 * MIB), (4 * SECOND, 330 * MIB))
        outcome = run([train(name, 20) for name in "abc"], Salus(order), 330, budget_changes=changes)
        assert set(ends(outcome)) == {"a", "b", "c"}


@dataclass(frozen=True)
class Misled(Policy):
    """Lets a policy believe that every job needs half the ephemeral bytes it does."""

    policy: Salus
    name = "misled"

    def decide(self, view: View) -> Sequence[Action]:
        jobs = tuple(msgspec.structs.replace(job, plans=tuple(halved(plan) for plan in job.plans)) for job in view.jobs)
        return self.policy.decide(msgspec.structs.replace(view, jobs=jobs))


@cache
def halved(plan: Profile) -> Profile:
    return replace(plan, curve=MemoryCurve(plan.curve.edges_ns, plan.curve.bytes // 2))


class TestFigures:
    def test_42_inference_instances_live_on_one_16_gb_device(self) -> None:
        """FACTS 3: 9,758 MB persistent and 3,271 MB for the one lane that they share."""
        ephemeral = [3271, 2900, 2700, 2400, 2200, 1900, 1700, 1500, 1200, 1000, 700, 500, 300, 177]
        persistent = [900, 700, 500, 300, 250, 150, 120, 100, 80, 60, 40, 25, 20, 7]
        submissions = [
            Submission(
                Job(
                    name=f"{model}.{copy}",
                    kind=JobKind.INFERENCE,
                    trace=tide(
                        ops=3,
                        seconds=0.01,
                        persistent=(size + (model < 2 and copy == 0)) * MIB,
                        ephemeral=ephemeral[model] * MIB,
                        inference=True,
                    ),
                ),
                requests_ns=(SECOND, 2 * SECOND),
            )
            for copy in range(3)
            for model, size in enumerate(persistent)
        ]
        outcome = simulate(submissions, V100, 16 * GIB, Salus())
        admitted = [e for e in outcome.entries if isinstance(e, Decided) and isinstance(e.action, Admit)]
        assert len(admitted) == 42
        assert {entry.at_ns for entry in admitted} == {0}
        assert len(ends(outcome)) == 42
        assert outcome.peak_bytes == (9758 + 3271) * MIB

    @pytest.mark.networks
    @pytest.mark.parametrize("seed", [1, 2])
    def test_a_100_job_trace_comes_out_as_published(self, seed: int) -> None:
        """SRTF has a third of FIFO's average JCT or less (published 3.19x), and PACK the best makespan of the four."""
        submissions = [
            Submission(workload(f"{n}", wanted.model, wanted.batch, wanted.solo_seconds), wanted.arrives_ns)
            for n, wanted in enumerate(salus_jobs(seed))
        ]
        arrived = {each.job.name: each.arrives_ns / SECOND for each in submissions}
        times: dict[Order, float] = {}
        makespans: dict[Order, float] = {}
        for order in (Order.FIFO, Order.SRTF, Order.PACK, Order.FAIR):
            ended = ends(simulate(submissions, V100, 16 * GIB, Salus(order)))
            times[order] = sum(ended[name] - arrived[name] for name in arrived) / len(arrived)
            makespans[order] = max(ended.values())
        assert times[Order.FIFO] / times[Order.SRTF] >= 3
        assert times[Order.SRTF] < times[Order.FAIR] < times[Order.FIFO]
        assert makespans[Order.PACK] < 0.95 * min(makespans[order] for order in makespans if order is not Order.PACK)


# Persistent and ephemeral MB of Salus's workloads, in the order of SALUS_WORKLOADS (FACTS 3), and our guess how much of
# the device each fills.
SIZES = """
alexnet 0.6: 265/784 295/943 354/1260; googlenet 0.7: 72/1325 130/1905 216/3096;
inception3 1: 235/4309 380/6503 591/10970; overfeat 0.8: 587/3107 618/3281 679/3629;
inception4 1: 372/7068 588/10767 759/13976; resnet50 0.9: 227/4301 339/6218 459/8125;
resnet101 1: 283/5367 456/8199 702/10957; resnet152 1: 350/6630 576/10615 822/14171;
vgg11 0.9: 536/3683 564/4672 622/6721; vgg16 1: 557/4333 585/6157 643/8971; vgg19 1: 577/4353 606/6157 663/9120;
speech 0.5: 494/1760 494/3499 494/5239; seq2seq 0.4: 22/61 80/963 257/4867; superres 0.4: 18/253 32/497 60/993;
vae 0.2: 20/3 21/7 22/13"""


@cache
def traces() -> dict[tuple[str, int], Trace]:
    """A tide for each workload; an iteration takes 10 s, so that the run is short."""
    rows = [row.split() for row in SIZES.split(";")]
    shapes = [(float(row[1].strip(":")), *map(int, size.split("/"))) for row in rows for size in row[2:]]
    return {
        workload: tide(ops=4, seconds=10, persistent=persistent * MIB, ephemeral=ephemeral * MIB, fill=fill)
        for workload, (fill, persistent, ephemeral) in zip(SALUS_WORKLOADS, shapes, strict=True)
    }


def workload(name: str, model: str, batch: int, seconds: float) -> Job:
    return Job(name=name, trace=traces()[model, batch], iterations=max(round(seconds / 10), 1))
