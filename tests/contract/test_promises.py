"""What README promises, whatever the jobs do."""

from __future__ import annotations

import random
from itertools import groupby, pairwise

import pytest

from contract.engines import engines
from contract.world import LEASE, MS, Engine, Facts, Scene, StartsWhen, Step, Tide, holds, rise_and_fall
from neaptide.core.control.actions import Start
from neaptide.core.control.events import BudgetChanged, IterationEnded, JobEnded, JobEvicted, JobGrew, JobResumed
from neaptide.core.rules.shares import weight
from neaptide.policies import POLICIES
from simple_policies import Everything

NAMES = sorted(set(POLICIES) - {"spatial-paged"})


def three_jobs(iterations: int) -> list[Tide]:
    """Together they would hold 28 leases at their tops."""
    return [
        Tide(name="a", persistent=2, steps=rise_and_fall(8), iterations=iterations),
        Tide(name="b", persistent=1, steps=rise_and_fall(10, 12 * MS), iterations=iterations),
        Tide(name="c", persistent=1, steps=rise_and_fall(6, 5 * MS), iterations=iterations),
    ]


@pytest.mark.parametrize("policy", NAMES)
@engines(soft="tests/live runs every policy on processes")
def test_the_budget_is_never_exceeded_and_every_job_ends_under_every_policy(engine: Engine, policy: str) -> None:
    engine.run(Scene(tides=three_jobs(6), budget=16, policy=POLICIES.make(policy))).check_all_ended()


@engines()
def test_the_budget_is_never_exceeded_when_everything_is_started_at_once(engine: Engine) -> None:
    facts = engine.run(Scene(tides=three_jobs(4), budget=16, policy=Everything()))
    facts.check_all_ended()
    assert facts.most_held > 12  # the jobs did share the device


@engines()
def test_the_oldest_iteration_ends_first_when_the_budget_is_enough_for_one(engine: Engine) -> None:
    tides = [Tide(name=name, steps=(Step(2, 20 * MS), Step(8, 5 * MS))) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=10, policy=StartsWhen(b=holds("a", 3))))
    facts.check_all_ended()
    started = [entry.action.job for entry in facts.decided(Start)]  # type: ignore[attr-defined]
    assert [event.job for event in facts.events(IterationEnded)] == started == ["a", "b"]


@engines()
def test_a_short_job_ends_long_before_the_long_ones_that_came_before_it(engine: Engine) -> None:
    long = [Tide(name=name, steps=rise_and_fall(8), iterations=40) for name in "ab"]
    short = Tide(name="c", steps=rise_and_fall(8), iterations=3)
    facts = engine.run(Scene(tides=[*long, short], budget=13, policy=POLICIES.make("neaptide")))
    facts.check_all_ended()
    end = facts.place(facts.events(JobEnded, "c")[0])
    assert all(sum(facts.place(each) < end for each in facts.events(IterationEnded, name)) < 20 for name in "ab")


@engines(simulator="a simulated iteration holds what its trace says")
def test_jobs_that_take_more_than_their_traces_say_are_evicted_restored_and_end(engine: Engine) -> None:
    tides = [Tide(name=name, steps=(Step(3, 60 * MS), Step(6, 20 * MS)), iterations=3, more=5) for name in "ab"]
    policy = StartsWhen(b=lambda view: len(view.jobs) == 1 or holds("a", 4)(view))
    facts = engine.run(Scene(tides=tides, budget=15, policy=policy))
    facts.check_all_ended()
    assert facts.events(JobEvicted)
    assert len(facts.events(JobResumed)) == len(facts.events(JobEvicted))


@pytest.mark.parametrize("policy", ["temporal", "zico", "ticktock", "salus-fair", "salus-pack", "herald", "neaptide"])
@engines(simulator="a simulated job holds what its trace says", soft="it takes long, and the daemon is the same")
def test_jobs_that_hold_more_than_was_measured_take_turns_instead_of_evicting_each_other(
    engine: Engine, policy: str
) -> None:
    # By the traces 2 + 2 + 8 leases are enough for both. Then each keeps 3 more, though it needs few bytes more.
    tides = [
        Tide(name=name, persistent=2, steps=rise_and_fall(8), iterations=250, pins=3, says_iterations=False)
        for name in "ab"
    ]
    facts = engine.run(Scene(tides=tides, budget=14, policy=POLICIES.make(policy)))
    facts.check_all_ended()
    assert len(facts.events(JobEvicted)) <= 4
    assert facts.events(JobGrew)
    began_ns, ended_ns = facts.views[0].now_ns, facts.entries[-1].at_ns
    turns_seconds = 2 * 250 * 8 * MS
    assert ended_ns - began_ns < 1e9 * (turns_seconds / 0.9 + 1)  # a second to learn it


@pytest.mark.parametrize("budget", range(14, 29, 2))
@engines(simulator="tests/properties/test_pairs.py has random pairs", soft="neaptide bench sweep has real ones")
def test_two_jobs_do_as_much_as_in_turns_at_every_budget_in_which_each_can_run(engine: Engine, budget: int) -> None:
    # Each leases 13 at its top, of which its trace knows 10.
    tides = [
        Tide(name=name, persistent=2, steps=rise_and_fall(8, 12 * MS), iterations=200, pins=3, says_iterations=False)
        for name in "ab"
    ]
    facts = engine.run(Scene(tides=tides, budget=budget, policy=POLICIES.make("neaptide")))
    facts.check_all_ended()
    assert 0.9 * (facts.entries[-1].at_ns - facts.views[0].now_ns) / 1e9 <= 2 * 200 * 12 * MS
    assert len(facts.events(JobEvicted)) <= 1


@pytest.mark.parametrize(
    "policy", ["neaptide", "herald", "salus-fair", "salus-srtf", "salus-pack", "salus-round-robin"]
)
@engines(soft="two cores do not keep the proportions of three processes")
def test_three_equal_jobs_share_the_device_by_the_weights_of_their_priorities(engine: Engine, policy: str) -> None:
    tides = [
        Tide(name=str(priority), steps=rise_and_fall(4), iterations=240, priority=priority, says_iterations=False)
        for priority in (3, 2, 1)
    ]
    facts = engine.run(Scene(tides=tides, budget=24, policy=POLICIES.make(policy)))
    facts.check_all_ended()
    first_end = min(facts.place(event) for event in facts.events(JobEnded))
    counts = [
        sum(event.iterations for event in facts.events(IterationEnded, tide.name) if facts.place(event) < first_end)
        for tide in tides
    ]
    weights = [weight(tide.priority) for tide in tides]
    for count, each in zip(counts, weights, strict=True):
        assert count / sum(counts) == pytest.approx(each / sum(weights), rel=0.2), counts


@pytest.mark.parametrize("policy", ["neaptide", "salus-fair", "salus-srtf"])
@engines(simulator="the simulator has no processes", soft="it takes long, and the daemon is the same")
def test_a_job_that_was_stopped_and_goes_on_does_not_hold_up_its_neighbour(engine: Engine, policy: str) -> None:
    wide = tuple(Step(leases, 2 * MS, width=2) for leases in (2, 4, 2))
    stopped = Tide(name="a", steps=wide, iterations=400, stops_in=20, stops_for=3.0, says_iterations=False)
    other = Tide(name="b", steps=wide, iterations=900, says_iterations=False)
    facts = engine.run(Scene(tides=[stopped, other], budget=14, policy=POLICIES.make(policy)))
    facts.check_all_ended()
    back_ns = facts.events(JobResumed, "a")[0].at_ns
    ends_ns = [event.at_ns for event in facts.events(IterationEnded, "b") if event.at_ns >= back_ns]
    assert len(ends_ns) > 100
    assert max(after - before for before, after in pairwise([back_ns, *ends_ns])) < 300_000_000


def budgets_of_the_user(facts: Facts) -> list[float]:
    """The budgets in leases that the user set, as the log has them: policies may also be told of new jobs' bytes."""
    return [budget for budget, _ in groupby(event.whole_bytes / LEASE for event in facts.events(BudgetChanged))]


@engines()
def test_a_lower_budget_is_kept_once_memory_has_been_given_back(engine: Engine) -> None:
    tides = [Tide(name=name, persistent=2, steps=rise_and_fall(6, 12 * MS), iterations=25) for name in "ab"]
    changes = [(60 * MS, 10)]  # to the end: on a busy machine it may take long until memory is given back
    facts = engine.run(Scene(tides=tides, budget=16, policy=POLICIES.make("neaptide"), budget_changes=changes))
    facts.check_all_ended()
    assert budgets_of_the_user(facts) in ([10], [16, 10])  # 16 where policies were told of a new job's bytes before
    low = [view.held_bytes / LEASE for view in facts.views if view.budget_bytes == 10 * LEASE]
    settled = next(index for index, held in enumerate(low) if held <= 10)
    assert max(low[settled:]) <= 10


@engines(simulator="a simulated device has no leases")
def test_a_budget_smaller_than_one_lease_is_refused_and_the_old_one_stays(engine: Engine) -> None:
    tides = [Tide(name=name, steps=rise_and_fall(4), iterations=10) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=8, policy=Everything(), budget_changes=[(20 * MS, 0.5)]))
    facts.check_all_ended()
    assert budgets_of_the_user(facts) in ([], [8])


@pytest.mark.parametrize("seed", range(3))
@engines(simulator="the simulator has no processes")
def test_a_job_killed_at_any_moment_gives_everything_back(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    killed = Tide(name="a", steps=rise_and_fall(8, 12 * MS), iterations=100_000, killed_after=chance.uniform(0, 0.3))
    other = Tide(name="b", steps=rise_and_fall(8, 12 * MS), iterations=10)
    facts = engine.run(Scene(tides=[killed, other], budget=14, policy=POLICIES.make("neaptide")))
    assert (facts.ended, set(facts.failed)) == ({"b"}, {"a"})
    assert facts.iterations("b") == 10
    assert facts.most_held <= 14
    assert facts.held_at_the_end == 0
