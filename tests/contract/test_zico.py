"""Zico's rules, worked out by hand: where a running iteration is, and how long the next one is delayed for memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from contract.engines import engines
from contract.world import LEASE, MS, Does, Engine, Scene, Step, Tide
from neaptide.core.control.actions import Action, Admit, Start, WakeAt
from neaptide.core.control.events import JobStalled
from neaptide.core.control.job import JobState
from neaptide.core.control.policy import Need
from neaptide.core.control.view import View
from neaptide.policies.zico import Zico

SLEEPS = "a kernel of the contract's job there takes no time: the job sleeps between two kernels"


def looks_on(view: View) -> Sequence[Action]:
    """Start everything at once, and look every millisecond."""
    starts = [Start(job.name) for job in [*view.startable, *view.queued]]
    return [*(Admit(job.name) for job in view.queued), *starts, WakeAt(view.now_ns + 1_000_000)]


@engines(soft=SLEEPS)
def test_a_running_iteration_is_where_its_kernels_own_times_say_and_not_where_their_count_says(engine: Engine) -> None:
    # Four kernels of 1 ms, one of 40 ms, and one of 1 ms. At 24 ms four of six kernels are done: by their number that
    # were two thirds of the iteration, or 30 ms. The device is in the middle of the long one.
    steps = (*(Step(1, MS) for _ in range(4)), Step(1, 40 * MS), Step(1, MS))
    tides = [Tide(name="a", steps=steps), Tide(name="b", steps=(Step(1, MS),))]
    policy = Does(looks_on, frozenset({Need.PROGRESS}))
    facts = engine.run(Scene(tides=tides, budget=8, policy=policy))
    facts.check_all_ended()
    (start,) = facts.decided(Start, "a")
    seen = {
        round((view.now_ns - start.at_ns) / 1e6): job.position_ns / 1e6
        for view, job in facts.seen("a")
        if job.state is JobState.RUNNING and view.now_ns > start.at_ns
    }
    for at_ms in (10, 24, 40):
        assert seen[at_ms] == pytest.approx(at_ms, abs=1.1)


def levels(*leases: int) -> tuple[Step, ...]:
    """Each level is held for sixteen kernels of 1 ms, so that what two kernels launched ahead take is a small part."""
    return tuple(Step(level, MS) for level in leases for _ in range(16))


def zico_after_a(view: View) -> Sequence[Action]:
    """Zico, which sees no other job before A has started."""
    begun = any((job.name == "a" and job.state is JobState.RUNNING) or job.iterations_done for job in view.jobs)
    if begun or not any(job.name == "a" for job in view.jobs):
        return Zico(in_flight=1).decide(view)
    alone = replace(view, jobs=tuple(job for job in view.jobs if job.name == "a"))
    return [*Zico(in_flight=1).decide(alone), WakeAt(view.now_ns + 1000)]


# Two kernels are launched ahead, so a level is taken 2 ms before its first kernel runs, and given back after its last.
# A holds 2 leases from 0 ms on, 4 from 14, 6 from 30, 4 from 48 and 2 from 64 to 80, and B the same d later. Together
# they may hold 8. While A holds 6, B may hold 2: d + 14 >= 48. While A then holds 4, B may hold 4: d + 30 >= 64.
TIDE = levels(2, 4, 6, 4, 2)
DELAY_MS = 34
# A job that holds 4 leases has room beside the same A when A has given its 6 back, at 48 ms. If it ends before A takes
# them, its curve fits before as well. But they are kept for A even then, as A is older, and it would only stall.
FLAT, SHORT, FLAT_DELAY_MS = levels(4, 4), levels(4), 48


@pytest.mark.parametrize(
    ("other", "delay"),
    [(TIDE, DELAY_MS), (FLAT, FLAT_DELAY_MS), (SHORT, FLAT_DELAY_MS)],
    ids=["identical", "flat", "short"],
)
@engines(soft="two processes do not keep the time of a curve to the millisecond")
def test_zico_delays_an_iteration_by_the_smallest_time_for_which_it_fits_beside_the_older_one(
    engine: Engine, other: tuple[Step, ...], delay: int
) -> None:
    tides = [Tide(name="a", steps=TIDE), Tide(name="b", steps=other)]
    facts = engine.run(Scene(tides=tides, budget=10, policy=Does(zico_after_a, Zico.needs)))
    facts.check_all_ended()
    (first,), (second,) = facts.decided(Start, "a"), facts.decided(Start, "b")
    assert (second.at_ns - first.at_ns) / 1e6 == pytest.approx(delay, abs=1)
    assert not facts.events(JobStalled)


@engines()
def test_zico_starts_an_iteration_once_the_device_has_come_far_enough_in_the_other_one(engine: Engine) -> None:
    tides = [Tide(name=name, steps=TIDE, iterations=2) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=10, policy=Does(zico_after_a, Zico.needs)))
    facts.check_all_ended()
    start = facts.decided(Start, "b")[0].at_ns
    before = [(view.now_ns, job.position_ns / 1e6) for view, job in facts.seen("a") if job.state is JobState.RUNNING]
    waits = [position for at_ns, position in before if at_ns < start]
    assert waits
    assert all(position < DELAY_MS + 0.1 for position in waits)
    assert [position for at_ns, position in before if at_ns == start][-1] >= DELAY_MS - 0.1


@engines()
def test_zico_does_not_delay_iterations_that_fit_together(engine: Engine) -> None:
    tides = [Tide(name=name, steps=TIDE) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=14, policy=Zico()))
    facts.check_all_ended()
    # A live daemon may take the last newcomer's bytes off the budget for a moment.
    whole = [view for view in facts.views if view.budget_bytes == 14 * LEASE]
    assert any(len(view.admitted) == 2 for view in whole)
    assert not any(isinstance(action, WakeAt) for view in whole for action in Zico().decide(view))
