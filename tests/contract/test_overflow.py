"""Bytes over the link: what a job needs beyond its limit, or beyond a device that is oversubscribed, is in host memory.

The worked example of AntMan's overflow: 10 leases. The guaranteed job has a peak of 6, so 4 are left. The other job
holds 1 between its iterations and 6 more at its peak: limited to 4, it has 3 of these on the device and 3
in host memory.
"""

from __future__ import annotations

from dataclasses import replace

from contract.engines import engines
from contract.world import LEASE, Engine, Scene, Tide, rise_and_fall
from neaptide.core.control.actions import SetLimit, Suspend
from neaptide.core.control.events import IterationEnded, JobEnded, JobEvicted, JobStalled
from neaptide.policies.antman import AntMan
from neaptide.policies.spatial import SpatialPaged

GUARANTEED = Tide(name="g", steps=rise_and_fall(5), iterations=4, priority=1)
OTHER = Tide(name="a", steps=rise_and_fall(6), iterations=12)


@engines()
def test_a_job_that_does_not_fit_beside_the_guaranteed_one_runs_on_with_its_overflow_in_host_memory(
    engine: Engine,
) -> None:
    facts = engine.run(Scene(tides=[GUARANTEED, OTHER], budget=10, policy=AntMan()))
    facts.check_all_ended()
    assert [decided.action for decided in facts.decided(SetLimit)] == [SetLimit("a", 4 * LEASE), SetLimit("a", None)]
    assert facts.decided(Suspend) == []
    ends = {event.job: facts.place(event) for event in facts.events(JobEnded)}
    beside = [event for event in facts.events(IterationEnded, "a") if facts.place(event) < ends["g"]]
    assert beside  # it did not wait for the guaranteed job's end


@engines()
def test_a_limited_job_holds_no_more_than_its_limit_and_its_whole_peak_again_when_there_is_room(engine: Engine) -> None:
    facts = engine.run(Scene(tides=[GUARANTEED, OTHER], budget=10, policy=AntMan()))
    lifted_ns = facts.decided(SetLimit)[-1].at_ns
    assert max(held for at_ns, held in facts.held["a"] if at_ns < lifted_ns) == 4
    assert max(held for at_ns, held in facts.held["a"] if at_ns >= lifted_ns) == 7
    assert max(held for _, held in facts.held["g"]) == 6


@engines(fake="its jobs are not processes", simulator="its jobs are not processes")
def test_a_job_that_is_killed_while_it_overflows_leaves_nothing(engine: Engine) -> None:
    killed = replace(OTHER, killed_in=1)
    facts = engine.run(Scene(tides=[GUARANTEED, killed], budget=10, policy=AntMan()))
    assert facts.decided(SetLimit, "a")
    assert (facts.ended, set(facts.failed)) == ({"g"}, {"a"})
    assert facts.held_at_the_end == 0


@engines()
def test_under_a_policy_that_oversubscribes_nobody_waits_for_memory(engine: Engine) -> None:
    """Peaks of 5 leases each, a quarter more than the 8 that there are and that the jobs hold between iterations."""
    tides = [Tide(name=name, persistent=4, steps=rise_and_fall(1), iterations=20) for name in ("a", "b")]
    facts = engine.run(Scene(tides=tides, budget=8, policy=SpatialPaged()))
    assert (facts.ended, facts.failed) == ({"a", "b"}, {})
    assert [event for kind in (JobStalled, JobEvicted) for event in facts.events(kind)] == []
    assert facts.held_at_the_end == 0
    if engine.name != "simulator":  # it counts what pages, too
        assert facts.most_held <= 8
