"""What may be launched: the gate before heavy ops, the cap on kernels in flight, and the end of the forward pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contract.engines import engines
from contract.world import LEASE, LOOK_NS, MS, SMS, Does, Engine, Facts, Scene, Step, Tide
from neaptide.core.control.actions import Action, Admit, CapInFlight, SetGate, Start, WakeAt
from neaptide.core.control.events import IterationEnded, PhaseEnded
from neaptide.core.control.job import JobState
from neaptide.core.control.policy import Need
from neaptide.core.control.view import View
from neaptide.core.traces.trace import Phase
from simple_policies import Everything

CLOSED_NS = 60_000_000


class GateOpensLate:
    """Closes the gate of every job before it starts, and opens all of them after a while."""

    def __init__(self) -> None:
        self.opens_ns = 0

    def __call__(self, view: View) -> Sequence[Action]:
        if queued := view.queued:
            self.opens_ns = view.now_ns + CLOSED_NS
            acts = [[Admit(job.name), SetGate(job.name, False), Start(job.name)] for job in queued]
            return [*(action for each in acts for action in each), WakeAt(self.opens_ns)]
        if view.now_ns < self.opens_ns:
            return [WakeAt(self.opens_ns)]
        return [SetGate(job.name, True) for job in view.admitted if not job.gate_open]


@engines()
def test_a_closed_gate_holds_kernels_of_two_sms_and_lets_those_of_one_pass(engine: Engine) -> None:
    light = Tide(name="light", persistent=2, steps=(Step(1, MS, width=1),) * 3)
    heavy = Tide(name="heavy", persistent=2, steps=(Step(1, MS, width=SMS),) * 3)
    policy = Does(GateOpensLate(), frozenset({Need.GATE}))
    facts = engine.run(Scene(tides=[light, heavy], budget=12, policy=policy))
    facts.check_all_ended()
    (opened,) = facts.decided(SetGate, "heavy")[1:]
    assert facts.place(facts.events(IterationEnded, "light")[0]) < facts.place(opened)
    assert facts.place(facts.events(IterationEnded, "heavy")[0]) > facts.place(opened)


class LaunchesAgainstAGate:
    """Starts a job behind a closed gate with a cap, and opens the gate when the job has stood still for a while."""

    def __init__(self, cap: int | None) -> None:
        self._cap = cap
        self.last = (0, 0)  # bytes held, and since when

    def __call__(self, view: View) -> Sequence[Action]:
        if view.queued:
            actions: list[Action] = [WakeAt(view.now_ns + LOOK_NS)]
            for name in (job.name for job in view.queued):
                actions += [Admit(name), CapInFlight(name, self._cap), SetGate(name, False), Start(name)]
            return actions
        if view.held_bytes != self.last[0]:
            self.last = view.held_bytes, view.now_ns
        if view.now_ns - self.last[1] < CLOSED_NS:
            return [WakeAt(view.now_ns + LOOK_NS)]
        return [SetGate(job.name, True) for job in view.running if not job.gate_open]


@pytest.mark.parametrize("cap", [1, 3])
@engines()
def test_a_cap_bounds_how_many_ops_take_their_memory_before_they_run(engine: Engine, cap: int) -> None:
    # The n-th op holds n leases, so the memory held behind the gate tells how many ops have taken theirs: the one that
    # would run, and after it as many as the cap says.
    steps = tuple(Step(op + 1, MS, width=SMS) for op in range(8))
    tide = Tide(name="a", persistent=2, steps=steps, ahead=True)
    other = Tide(name="b", steps=(Step(1, MS),))
    policy = Does(LaunchesAgainstAGate(cap), frozenset({Need.GATE}))
    facts = engine.run(Scene(tides=[tide, other], budget=20, policy=policy))
    facts.check_all_ended()
    assert _held_behind_the_gate(facts) == tide.persistent + cap + 1


def _held_behind_the_gate(facts: Facts) -> float:
    """The most leases that job a held while its gate was closed."""
    seen = [job for _, job in facts.seen("a") if job.state is JobState.RUNNING and not job.gate_open]
    return max(job.held_bytes for job in seen) / LEASE


@pytest.mark.parametrize(("others", "leases"), [(0, 20), (1, 16)], ids=["alone", "beside another"])
@engines()
def test_without_a_cap_a_job_launches_64_ops_ahead_beside_others_and_its_whole_iteration_alone(
    engine: Engine, others: int, leases: int
) -> None:
    # Each of the 80 ops takes a quarter of a lease more than the one before.
    steps = tuple(Step((op + 1) / 4, MS, width=SMS) for op in range(80))
    tide = Tide(name="a", persistent=2, steps=steps, ahead=True)
    other = Tide(name="b", persistent=2, steps=(Step(1, MS, width=SMS),))
    policy = Does(LaunchesAgainstAGate(None), frozenset({Need.GATE}))
    facts = engine.run(Scene(tides=[tide, other][: 1 + others], budget=28, policy=policy))
    facts.check_all_ended()
    assert int(_held_behind_the_gate(facts) - tide.persistent) in (leases, leases + others)  # a chunk may have a gap


@engines()
def test_the_forward_pass_ends_with_the_last_forward_op_before_the_backward_pass(engine: Engine) -> None:
    # The last op copies the next batch: it is a forward op too, but after the optimizer's.
    phases = [Phase.FORWARD, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.FORWARD]
    steps = tuple(Step(1, 4 * MS, phase=phase) for phase in phases)
    tides = [Tide(name="a", steps=steps, iterations=3), Tide(name="b", steps=steps, iterations=3)]

    policy = Does(Everything().decide, frozenset({Need.PHASES}))
    facts = engine.run(Scene(tides=tides, budget=10, policy=policy))
    facts.check_all_ended()
    assert len(facts.events(PhaseEnded, "a")) == 3
    positions = {
        round(job.position_ns / 1e6)
        for view, job in facts.seen("a")
        if isinstance(view.event, PhaseEnded) and view.event.job == "a"
    }
    assert positions == {8}
