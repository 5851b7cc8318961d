"""What a policy can say to the device: classes, shares of the SMs, and gates that close by themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contract.engines import engines
from contract.world import MS, SMS, Does, Engine, Scene, Step, Tide
from neaptide.core.control.actions import Action, Admit, SetClass, SetGate, SetShare, Start, WakeAt
from neaptide.core.control.events import IterationEnded
from neaptide.core.control.policy import Need
from neaptide.core.control.view import View

HELD_NS = 60_000_000


def _job(name: str, ops: int, **facts: object) -> Tide:
    """Ops of 4 ms on all SMs, launched ahead; on a device of real cores each fills 32 MiB."""
    steps = (Step(0, 4 * MS, width=SMS),) * ops
    return Tide(name=name, persistent=16, steps=steps, ahead=True, **facts)  # type: ignore[arg-type]


class OpensTogether:
    """Starts all jobs before closed gates, and opens these after a while, in the order of arrival."""

    def __init__(self, deadline: str | None) -> None:
        self._deadline = deadline
        self.opens_ns = 0

    def __call__(self, view: View) -> Sequence[Action]:
        if queued := view.queued:
            self.opens_ns = view.now_ns + HELD_NS
            actions: list[Action] = [WakeAt(self.opens_ns)]
            for job in queued:
                actions += [Admit(job.name), SetGate(job.name, False)]
                actions += [SetClass(job.name, True)] if job.name == self._deadline else []
                actions += [Start(job.name)]
            return actions
        if view.now_ns < self.opens_ns:
            return [WakeAt(self.opens_ns)]
        return [SetGate(job.name, True) for job in view.admitted if not job.gate_open]


def _ends(engine: Engine, deadline: str | None) -> list[str]:
    """The jobs in the order in which their iterations end."""
    policy = Does(OpensTogether(deadline), frozenset({Need.GATE, Need.CLASSES}))
    facts = engine.run(Scene(tides=[_job("early", 40), _job("late", 40)], budget=80, policy=policy))
    facts.check_all_ended()
    return [event.job for event in facts.events(IterationEnded)]


@engines()
def test_ops_of_a_deadline_job_go_before_those_of_a_job_that_was_first(engine: Engine) -> None:
    assert _ends(engine, "late") == ["late", "early"]


@engines(soft="there jobs of one class take turns, whose lengths depend on the machine's load")
def test_a_job_that_was_first_ends_first_within_a_class(engine: Engine) -> None:
    assert _ends(engine, None) == ["early", "late"]


@engines(soft="how far a job has come when another ends depends on the machine's load")
def test_a_best_effort_op_that_has_not_begun_waits_for_a_heavy_op_of_a_deadline_job(engine: Engine) -> None:
    tides = [_job("early", 4), _job("late", 4)]
    policy = Does(OpensTogether("late"), frozenset({Need.GATE, Need.CLASSES}))
    facts = engine.run(Scene(tides=tides, budget=80, policy=policy))
    facts.check_all_ended()
    opened = facts.decided(SetGate, "late")[1].at_ns
    ends = {event.job: event.at_ns - opened for event in facts.events(IterationEnded)}
    # The first op of the early job has begun when the gates open. The others wait for all four of the late job.
    assert ends["late"] <= 20_000_000
    assert ends["early"] >= ends["late"] + 3 * 4_000_000 - 1


class Shares:
    """Gives the job `a` a share of the SMs for the second half of its iterations; the other job waits for its end."""

    def __init__(self, share: float, iterations: int) -> None:
        self._share, self._half = share, iterations // 2

    def __call__(self, view: View) -> Sequence[Action]:
        actions: list[Action] = []
        startable = [*view.queued, *view.startable]
        alone = all(job.name != "a" for job in view.jobs)
        for job in startable:
            actions += [Admit(job.name)] if job in view.queued else []
            if job.name == "a" and job.iterations_done >= self._half and job.share is None:
                actions.append(SetShare(job.name, self._share))
            actions += [Start(job.name)] if job.name == "a" or alone else []
        return actions


@pytest.mark.parametrize(("width", "slower"), [(SMS, 10.0), (1, 5.0)], ids=["all SMs", "half of them"])
@engines()
def test_a_job_with_a_tenth_of_the_sms_is_slower_by_as_much_as_its_ops_use_more(
    engine: Engine, width: int, slower: float
) -> None:
    steps = (Step(0, 4 * MS, width=width),) * (4 if width == SMS else 2)
    tide = Tide(name="a", persistent=16, steps=steps, iterations=8, ahead=True)
    other = Tide(name="b", steps=(Step(0, MS),))
    policy = Does(Shares(0.1, tide.iterations), frozenset({Need.SHARES}))
    facts = engine.run(Scene(tides=[tide, other], budget=80, policy=policy))
    facts.check_all_ended()
    took = [event.took_ns for event in facts.events(IterationEnded, "a")]
    half = len(took) // 2
    if engine.name == "soft":  # light ops write one byte there: too short for any pause
        assert width == 1 or min(took[half + 1 :]) > slower / 3 * min(took[:half])
    else:
        assert took[-1] == pytest.approx(slower * took[0], rel=0.01)


class OpenUntil:
    """Opens the gate for 10 ms when the job starts, and for good after a while."""

    def __init__(self, open_ns: int) -> None:
        self._open_ns = open_ns
        self.opens_ns = 0

    def __call__(self, view: View) -> Sequence[Action]:
        if queued := view.queued:
            self.opens_ns = view.now_ns + HELD_NS
            until_ns = view.now_ns + self._open_ns
            acts = [[Admit(job.name), SetGate(job.name, True, until_ns), Start(job.name)] for job in queued]
            return [*(action for each in acts for action in each), WakeAt(self.opens_ns)]
        if view.now_ns < self.opens_ns:
            return [WakeAt(self.opens_ns)]
        return [SetGate(job.name, True) for job in view.admitted if job.gate_until_ns is not None]


@engines()
def test_a_heavy_op_does_not_begin_when_its_gate_closes_before_it_would_end(engine: Engine) -> None:
    tides = [_job("a", 4), Tide(name="b", steps=(Step(0, MS),))]
    policy = Does(OpenUntil(10_000_000 if engine.name != "soft" else 1), frozenset({Need.GATE}))
    facts = engine.run(Scene(tides=tides, budget=40, policy=policy))
    facts.check_all_ended()
    opened = facts.decided(SetGate, "a")[1]
    assert facts.place(facts.events(IterationEnded, "a")[0]) > facts.place(opened)
    if engine.name != "soft":  # two ops of 4 ms end within 10 ms, and the third would not
        assert facts.events(IterationEnded, "a")[0].at_ns - opened.at_ns == pytest.approx(8_000_000, abs=100_000)


@engines()
def test_a_share_above_the_device_and_a_gate_open_until_the_past_are_refused(engine: Engine) -> None:
    def tell(view: View) -> Sequence[Action]:
        odd = [[SetShare(job.name, 1.5), SetShare(job.name, 0.0), SetGate(job.name, True, 0)] for job in view.jobs]
        flat: list[Action] = [action for each in odd for action in each]
        return [*(Admit(job.name) for job in view.queued), *flat, *(Start(job.name) for job in view.jobs)]

    facts = engine.run(Scene(tides=[Tide(name="a", steps=(Step(1, MS),))], budget=20, policy=Does(tell)))
    facts.check_all_ended()
    assert [entry.reason for entry in facts.refused(SetShare)[:2]] == ["a share is above 0 and at most 1"] * 2
    assert facts.refused(SetGate)[0].reason == "that time is not in the future"
