"""Which job gets memory and when, and which job is evicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from contract.engines import engines
from contract.world import MS, Does, Engine, Scene, StartsWhen, Step, Tide, both, holds
from neaptide.core.control.actions import Action, Admit, Resume, Start, Suspend
from neaptide.core.control.events import IterationEnded, JobEnded, JobEvicted, JobFailed, JobResumed, JobSuspended
from neaptide.core.control.view import View
from neaptide.policies import POLICIES
from simple_policies import Everything


@engines()
def test_memory_is_granted_if_the_older_iterations_can_end_one_after_the_other(engine: Engine) -> None:
    # Two older iterations hold 2 of 8 leases, and the third asks for 4. Of 18, 10 are left for the 6 that the oldest
    # needs yet; when it has ended, there is enough for the second. One lease more of each job is persistent.
    low, high = Step(2, 80 * MS, until="c"), Step(8)
    older = [Tide(name=name, steps=(low, high)) for name in "ab"]
    third = Tide(name="c", steps=(Step(4, 5 * MS),))
    policy = StartsWhen(c=both(holds("a", 3), holds("b", 3)))
    facts = engine.run(Scene(tides=[*older, third], budget=18 + 3, policy=policy))
    facts.check_all_ended()
    assert facts.reached("c", 5) < min(facts.reached("a", 9), facts.reached("b", 9))
    assert not facts.events(JobEvicted)


@engines()
def test_memory_that_an_older_iteration_needs_to_end_is_kept_for_it(engine: Engine) -> None:
    older = Tide(name="a", steps=(Step(2, 80 * MS, until="b"), Step(8, 5 * MS)))
    younger = Tide(name="b", steps=(Step(6, 5 * MS),))
    facts = engine.run(Scene(tides=[older, younger], budget=12 + 2, policy=StartsWhen(b=holds("a", 3))))
    facts.check_all_ended()
    assert facts.reached("b", 7) > facts.reached("a", 9)
    assert not facts.events(JobEvicted)


@engines(simulator="a trace says bytes; what a device leases for them is seen on the device")
def test_jobs_are_admitted_together_if_their_leases_fit_not_their_bytes(engine: Engine) -> None:
    # 1.5 + 1.5 + 5 leases of bytes are 8, but each persistent part takes two leases.
    tides = [Tide(name=name, persistent=1.5, steps=(Step(5),), iterations=2) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=8, policy=Everything()))
    facts.check_all_ended()
    (admitted,), (first_end,) = facts.decided(Admit, "b"), facts.events(JobEnded, "a")
    assert facts.place(admitted) > facts.place(first_end)


@engines()
def test_jobs_are_admitted_together_if_persistent_leases_and_the_largest_ephemeral_peak_fit(engine: Engine) -> None:
    tides = [Tide(name=name, persistent=2, steps=(Step(5), Step(1)), iterations=3) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=9, policy=Everything()))
    facts.check_all_ended()
    assert facts.place(facts.decided(Admit, "b")[0]) < facts.place(facts.events(JobEnded, "a")[0])
    assert not facts.refused(Admit)


@engines()
def test_if_all_iterations_wait_the_youngest_is_evicted_and_returns_when_the_oldest_has_ended(engine: Engine) -> None:
    # All three fit until the budget is cut; then none can rise to its top.
    steps = (Step(3, 200 * MS), Step(4, 50 * MS))
    tides = [Tide(name=name, steps=steps) for name in "abc"]
    policy = StartsWhen(b=holds("a", 4), c=holds("b", 4))
    facts = engine.run(Scene(tides=tides, budget=14, policy=policy, budget_changes=[(80 * MS, 12)]))
    facts.check_all_ended()
    assert [event.job for event in facts.events(JobEvicted)] == ["c"]
    (returned,), (oldest_end,) = facts.events(JobResumed, "c"), facts.events(IterationEnded, "a")
    assert facts.place(returned) > facts.place(oldest_end)


@engines()
def test_a_job_that_needs_more_than_the_budget_fails_alone(engine: Engine) -> None:
    tides = [Tide(name="large", steps=(Step(9),)), Tide(name="small", steps=(Step(2),), iterations=3)]
    facts = engine.run(Scene(tides=tides, budget=8, policy=Everything()))
    assert facts.ended == {"small"}
    assert facts.most_held <= 8
    assert facts.held_at_the_end == 0
    assert not [entry for entry in facts.events(JobFailed) if entry.job == "small"]


@engines(soft="it takes four processes, and the board under them is that of the fake device")
def test_a_job_that_returns_between_iterations_is_not_starved_by_those_that_iterate(engine: Engine) -> None:
    # Two of the three tides fit at once, and the third job always waits for the next room. The fourth has to take its
    # persistent leases again in between.
    took = {"a": 10 * MS, "b": 13 * MS, "c": 17 * MS}  # so that no two end together
    busy = [Tide(name=name, steps=(Step(4, seconds),), iterations=30) for name, seconds in took.items()]
    returns = Tide(name="d", persistent=3, steps=(Step(1, MS),), iterations=2)

    def suspend_once(view: View) -> Sequence[Action]:
        away = [Suspend("d")] if isinstance(view.event, IterationEnded) and view.event.job == "d" else []
        back = [Resume("d")] if isinstance(view.event, JobSuspended) else []
        here = holds("d", 3)(view) or not any(job.name == "d" and job.iterations_done for job in view.jobs)
        others = [action for action in Everything().decide(view) if here or action != Start("d")]
        return [*away, *back, *others]

    facts = engine.run(Scene(tides=[*busy, returns], budget=3 + 2 * 4 + 2, policy=Does(suspend_once)))
    facts.check_all_ended()
    asked = facts.place(facts.decided(Resume, "d")[0])
    ended = facts.place(facts.events(IterationEnded, "d")[1])
    for name in "abc":
        assert sum(asked < facts.place(event) < ended for event in facts.events(IterationEnded, name)) <= 3


@engines(simulator="a simulated job that is alone is not held to a lower budget")
def test_a_job_alone_waits_while_the_budget_is_below_its_need_and_goes_on_when_it_rises(engine: Engine) -> None:
    tide = Tide(name="a", persistent=3, steps=(Step(4, 10 * MS), Step(8, 10 * MS)), iterations=20)
    changes = [(0.05, 8), (0.3, 12), (0.35, 5), (0.6, 11)]
    facts = engine.run(Scene(tides=[tide], budget=16, policy=Everything(), budget_changes=changes))
    facts.check_all_ended()


@engines(simulator="a simulated job that is alone is not held to a lower budget")
def test_a_job_that_holds_more_than_a_lower_budget_is_moved_to_host_memory_and_back(engine: Engine) -> None:
    tide = Tide(name="a", persistent=6, steps=(Step(1, 10 * MS), Step(8, 10 * MS)), iterations=60)
    changes = [
        (moment, budget) for number in range(3) for moment, budget in ((2 * number + 0.05, 4), (2 * number + 1, 40))
    ]
    facts = engine.run(Scene(tides=[tide], budget=16, policy=Everything(), budget_changes=changes))
    facts.check_all_ended()
    assert len(facts.events(JobEvicted)) == len(facts.events(JobResumed)) >= 1


@engines(simulator="a simulated device has no gaps between blocks")
def test_gaps_between_blocks_do_not_keep_a_job_from_a_budget_that_its_blocks_fit(engine: Engine) -> None:
    # The steps leave blocks of 0.75 leases in chunks of their own; with 0.25 lost in each, five leases would not do.
    tide = Tide(name="a", persistent=0.75, steps=tuple(Step(0.75 * n, 5 * MS) for n in range(1, 6)), iterations=20)
    facts = engine.run(Scene(tides=[tide], budget=8, policy=Everything(), budget_changes=[(0.05, 4.5), (0.1, 4.55)]))
    facts.check_all_ended()


@engines(
    simulator="a simulated host has all the memory that is needed",
    soft="only the fake device can take the host's memory away from one job",
)
def test_an_iteration_whose_bytes_cannot_be_moved_stays_and_another_job_moves_for_it(engine: Engine) -> None:
    tides = [Tide(name=name, steps=(Step(3, 60 * MS), Step(6, 20 * MS)), iterations=3, more=5) for name in "ab"]
    tides[1] = replace(tides[1], cannot_move=True)
    facts = engine.run(Scene(tides=tides, budget=15, policy=StartsWhen(b=holds("a", 4))))
    facts.check_all_ended()
    moved = [event.job for event in facts.events(JobResumed) if not event.kept]
    assert moved
    assert set(moved) == {"a"}


@engines(
    simulator="a simulated host has all the memory that is needed",
    soft="only the fake device can take the host's memory away from one job",
)
def test_a_job_that_the_policy_cannot_suspend_runs_on_and_both_jobs_end(engine: Engine) -> None:
    # In the lower budget the jobs do not fit together, and the policy would have them take turns.
    tides = [
        Tide(name=name, persistent=5, steps=(Step(4, 10 * MS),), iterations=200, cannot_move=name == "a")
        for name in "ab"
    ]
    scene = Scene(tides=tides, budget=16, policy=POLICIES.make("neaptide"), budget_changes=[(0.1, 10)])
    engine.run(scene).check_all_ended()
