"""Lanes (Salus, MLSys'20): bytes of the budget that belong to the iterations of a group of jobs, and only to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from contract.engines import engines
from contract.world import LEASE, LOOK_NS, MS, Engine, Facts, Scene, Step, Tide, holds, rise_and_fall
from neaptide.core.control.actions import Action, Admit, MoveLane, SizeLane, Start, WakeAt
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import IterationEnded, JobEnded, JobEvicted, JobFailed, JobGrew, JobStalled
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View
from neaptide.policies import POLICIES


class InLanes(Policy):
    """Puts each job into a lane of its own, sized as told, and starts each when its condition holds.

    When an iteration of `until` has ended, lanes get the sizes `later`.
    """

    name = "in-lanes"

    def __init__(
        self, leases: Mapping[str, int], starts: Mapping[str, Callable[[View], bool]], until: str, later: Sequence[int]
    ) -> None:
        self._names, self._sizes = list(leases), list(leases.values())
        self._starts, self._until, self._later = starts, until, later

    def decide(self, view: View) -> Sequence[Action]:
        actions: list[Action] = [Admit(job.name, self._names.index(job.name)) for job in view.queued]
        sizes = self._sizes
        if isinstance(view.event, IterationEnded) and view.event.job == self._until:
            sizes = self._sizes = list(self._later)
        changed = [lane for lane, size in enumerate(sizes) if view.lanes.get(lane, 0) != size * LEASE]
        changed.sort(key=lambda lane: sizes[lane] * LEASE - view.lanes.get(lane, 0))  # shrink before others grow
        actions += [SizeLane(lane, sizes[lane] * LEASE) for lane in changed]
        ready = [*(job.name for job in view.startable), *(job.name for job in view.queued)]
        held_back = [name for name in ready if name in self._starts and not self._starts[name](view)]
        actions += [Start(name) for name in ready if name not in held_back]
        return [*actions, *([WakeAt(view.now_ns + LOOK_NS)] if held_back else [])]


def two_lanes(budget: int, later: Sequence[int]) -> Scene:
    """Two lanes of 4 leases. The older iteration needs 6, while the younger holds 1 and needs its 4 only afterwards."""
    opening = Step(0, MS)  # an iteration begins with its first launch; what is allocated before is not its lane's
    overruns = Tide(name="a", steps=(opening, Step(3, 100 * MS), Step(6, 5 * MS)))
    modest = Tide(name="b", steps=(opening, Step(1, 300 * MS, until="a"), Step(4, 5 * MS)))
    policy = InLanes({"a": 4, "b": 4}, {"b": holds("a", 4)}, until="b", later=later)
    return Scene(tides=[overruns, modest], budget=budget, policy=policy)


@engines()
def test_an_iteration_that_overruns_its_lane_waits_and_takes_nothing_from_another_lane(engine: Engine) -> None:
    # Of 2 + 8 + 1 leases 5 are free when the older iteration asks for 3 more, and all but one are the other lane's.
    # (The arena may keep that one, as an empty chunk of the process that had it last.)
    facts = engine.run(two_lanes(budget=2 + 8 + 1, later=(6, 2)))
    facts.check_all_ended()
    assert facts.reached("b", 5) < facts.reached("a", 7)
    assert facts.events(JobStalled, "a")
    assert not facts.events(JobStalled, "b")
    assert not facts.events(JobEvicted)


@engines()
def test_a_lane_that_is_overrun_grows_by_what_no_lane_has(engine: Engine) -> None:
    facts = engine.run(two_lanes(budget=2 + 8 + 3, later=(4, 4)))
    facts.check_all_ended()
    assert facts.reached("a", 7) < facts.reached("b", 5)
    assert not facts.events(JobStalled)
    assert not facts.events(JobEvicted)


@engines()
def test_salus_opens_resizes_and_closes_lanes_within_the_safety_condition(engine: Engine) -> None:
    # Lanes of 6 and 2 leases beside 3 at rest fill the budget; the third job gets a lane when the first has ended.
    tops = {"large": 6, "small": 2, "middle": 4}
    tides = [Tide(name=name, steps=rise_and_fall(top, 12 * MS), iterations=4) for name, top in tops.items()]
    facts = engine.run(Scene(tides=tides, budget=3 + 8, policy=POLICIES.make("salus-pack")))
    facts.check_all_ended()
    check_safe(facts)
    first = [entry.action for entry in facts.decided(SizeLane)][:2]
    assert {action.lane: action.bytes // LEASE for action in first} == {0: 6, 1: 2}  # type: ignore[attr-defined]
    assert facts.place(facts.decided(Admit, "middle")[0]) > facts.place(facts.events(JobEnded, "large")[0])
    assert not facts.events(JobEvicted)


@pytest.mark.parametrize(("budget", "lanes"), [(11, 1), (14, 2)])
@engines()
def test_salus_counts_what_is_the_frameworks_own_with_what_stays_on_the_device(
    engine: Engine, budget: int, lanes: int
) -> None:
    # Each job has a model of 1 lease, 1 of its framework, and iterations of 4: lanes of their own need 2 + 2 + 4 + 4.
    tides = [Tide(name=name, framework=1, steps=rise_and_fall(4), iterations=20) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=budget, policy=POLICIES.make("salus-pack")))
    facts.check_all_ended()
    check_safe(facts)
    assert max(sum(size > 0 for size in view.lanes.values()) for view in facts.views) == lanes
    profile = next(job.profile for _, job in facts.seen("a"))
    assert profile.persistent_bytes == LEASE + profile.framework_bytes
    # On `fake` and `soft` the chunks may have room that no tensor uses: that is the framework's, too.
    assert LEASE <= profile.framework_bytes < 2 * LEASE


@engines(simulator="a simulated iteration needs what its trace says")
def test_salus_merges_lanes_for_an_iteration_that_needs_more_than_its_lane_and_no_job_is_moved(engine: Engine) -> None:
    tides = [
        Tide(name="grows", steps=rise_and_fall(4, 12 * MS), iterations=10, more=4),
        Tide(name="other", steps=rise_and_fall(4, 12 * MS), iterations=100),
    ]
    facts = engine.run(Scene(tides=tides, budget=2 + 8 + 2, policy=POLICIES.make("salus-pack")))
    facts.check_all_ended()
    check_safe(facts)
    assert facts.events(JobGrew, "grows")
    assert facts.decided(MoveLane)
    assert not facts.events(JobEvicted)


def check_safe(facts: Facts) -> None:
    """Salus's condition: the bytes at rest of the admitted jobs and the sizes of all lanes fit the budget."""
    at_rest = {tide.name: tide.trace.persistent_bytes for tide in facts.scene.tides}
    admitted: set[str] = set()
    lanes: dict[int, int] = {}
    for entry in facts.entries:
        match entry:
            case Decided(action=Admit(job=job)):
                admitted.add(job)
            case JobEnded(job=job) | JobFailed(job=job):
                admitted.discard(job)
            case Decided(action=SizeLane(lane=lane, bytes=size)):
                grows = size > lanes.get(lane, 0)
                lanes[lane] = size
                needed = sum(at_rest[job] for job in admitted) + sum(lanes.values())
                assert not grows or needed <= facts.scene.budget * LEASE
    assert not any(lanes.values()) or facts.scene.policy.name == "in-lanes"
