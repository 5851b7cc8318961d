"""A newcomer is admitted by what is known of it before it runs: an earlier run, or what its user says."""

from __future__ import annotations

from dataclasses import replace

from contract.engines import engines
from contract.world import LEASE, MS, Engine, Scene, Tide, rise_and_fall
from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.events import IterationEnded, JobArrived, JobEvicted, JobMeasured
from neaptide.policies import POLICIES
from simple_policies import Everything

_SIMULATED = "a simulated job is known from the beginning"
PLAIN = Tide(name="neighbour", steps=rise_and_fall(4, 12 * MS), iterations=30)


@engines(simulator=_SIMULATED)
def test_a_job_whose_earlier_run_was_measured_is_admitted_before_its_first_iteration(engine: Engine) -> None:
    job = Tide(name="known", steps=rise_and_fall(4, 12 * MS), iterations=8)
    facts = engine.run(Scene(tides=[PLAIN, replace(job, known=job)], budget=9, policy=POLICIES.make("salus-fair")))
    facts.check_all_ended()  # the policy has started every one of its iterations
    (arrived,), (first, *_) = facts.events(JobArrived, "known"), facts.decided(Start, "known")
    assert facts.place(arrived) < facts.place(facts.decided(Admit, "known")[0]) < facts.place(first)
    assert facts.events(JobMeasured, "known")  # its own measurement has taken the place of what was known
    assert not facts.events(JobEvicted)


@engines(simulator=_SIMULATED)
def test_a_known_profile_that_is_too_small_is_corrected_by_the_measurement(engine: Engine) -> None:
    job = Tide(name="grown", steps=rise_and_fall(8, 12 * MS), iterations=20)
    wrong = replace(job, known=replace(job, steps=rise_and_fall(2, 12 * MS)))
    facts = engine.run(Scene(tides=[PLAIN, wrong], budget=11, policy=POLICIES.make("salus-pack")))
    facts.check_all_ended()
    peaks = [view.profile.peak_bytes // LEASE for _, view in facts.seen("grown")]
    assert (peaks[0], peaks[-1]) == (3, 9)


@engines(simulator=_SIMULATED)
def test_a_known_profile_that_is_too_large_is_corrected_by_the_measurement(engine: Engine) -> None:
    job = Tide(name="shrunk", steps=rise_and_fall(2, 12 * MS), iterations=20)
    wrong = replace(job, known=replace(job, steps=rise_and_fall(8, 12 * MS)))
    facts = engine.run(Scene(tides=[PLAIN, wrong], budget=11, policy=POLICIES.make("salus-pack")))
    facts.check_all_ended()
    peaks = [view.profile.peak_bytes // LEASE for _, view in facts.seen("shrunk")]
    assert (peaks[0], peaks[-1]) == (9, 3)


@engines(simulator=_SIMULATED)
def test_a_known_profile_larger_than_the_budget_is_not_used(engine: Engine) -> None:
    job = Tide(name="small", steps=rise_and_fall(2, 12 * MS), iterations=20)
    wrong = replace(job, known=replace(job, steps=rise_and_fall(40, 12 * MS)), says_iterations=False)
    facts = engine.run(Scene(tides=[PLAIN, wrong], budget=11, policy=Everything()))
    assert (facts.ended, facts.failed) == ({"neighbour", "small"}, {})
    assert facts.events(IterationEnded, "small")
    assert max(view.profile.peak_bytes // LEASE for _, view in facts.seen("small")) == 3
