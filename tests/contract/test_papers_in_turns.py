"""The rules of the papers whose jobs take turns, or stand back for another job, each in a small case worked by hand."""

from __future__ import annotations

from itertools import groupby

from contract.engines import engines
from contract.world import MS, SMS, Engine, Facts, Scene, Step, Tide, rise_and_fall
from neaptide.core.control.actions import Admit, Resume, SetGate, Start, Suspend
from neaptide.core.control.controller import Decided
from neaptide.core.control.events import IterationEnded, JobEnded, PhaseEnded
from neaptide.core.control.job import JobState
from neaptide.core.traces.trace import Phase
from neaptide.policies import POLICIES
from neaptide.policies.antman import AntMan
from neaptide.policies.gandiva import Gandiva
from neaptide.policies.ticktock import TickTock

VIRTUAL = engines(soft="two processes slow each other by as much as the machine's load says")
CONTENDED = engines(
    fake="its jobs do not slow each other", soft="two processes slow each other by as much as the machine's load says"
)
LENGTHS = {"long": 9, "short": 2, "middle": 5}  # iterations of 8 ms


def three_jobs() -> list[Tide]:
    return [Tide(name=name, steps=rise_and_fall(4), iterations=length) for name, length in LENGTHS.items()]


def in_order(facts: Facts) -> list[tuple[str, int]]:
    """The jobs in the order in which their iterations ended, and how many of each in a row."""
    names = [event.job for event in facts.events(IterationEnded) for _ in range(event.iterations)]
    return [(name, len(list(row))) for name, row in groupby(names)]


@engines()
def test_salus_srtf_runs_the_job_with_the_shortest_remaining_time_first(engine: Engine) -> None:
    facts = engine.run(Scene(tides=three_jobs(), budget=40, policy=POLICIES.make("salus-srtf")))
    facts.check_all_ended()
    assert in_order(facts) == [("short", 2), ("middle", 5), ("long", 9)]


@engines()
def test_salus_fifo_runs_whole_jobs_in_the_order_in_which_they_came(engine: Engine) -> None:
    facts = engine.run(Scene(tides=three_jobs(), budget=40, policy=POLICIES.make("salus-fifo")))
    facts.check_all_ended()
    assert in_order(facts) == [("long", 9), ("short", 2), ("middle", 5)]


@engines()
def test_temporal_runs_one_iteration_at_a_time_and_then_the_one_that_has_waited_longest(engine: Engine) -> None:
    tides = [Tide(name=name, steps=rise_and_fall(4), iterations=3) for name in "abc"]
    facts = engine.run(Scene(tides=tides, budget=40, policy=POLICIES.make("temporal")))
    facts.check_all_ended()
    assert in_order(facts) == [("a", 1), ("b", 1), ("c", 1)] * 3
    assert max(len(view.running) for view in facts.views) == 1


@engines()
def test_spatial_gives_each_job_its_peak_for_good_and_a_job_that_does_not_fit_waits_for_an_end(engine: Engine) -> None:
    # Of 11 leases two jobs have 5 each, also while they hold 1: a third that would fit by turns waits.
    tides = [Tide(name=name, steps=rise_and_fall(4), iterations=6) for name in "abc"]
    facts = engine.run(Scene(tides=tides, budget=11, policy=POLICIES.make("spatial")))
    facts.check_all_ended()
    assert max(len(view.admitted) for view in facts.views) == 2
    assert facts.place(facts.decided(Admit, "c")[0]) > facts.place(facts.events(JobEnded)[0])
    assert not facts.decided(Suspend)


@engines()
def test_salus_fair_gives_jobs_the_same_time_and_not_the_same_number_of_iterations(engine: Engine) -> None:
    # One iteration of `slow` takes as long as three of `quick`: neither is ever ahead by more than one of its own.
    lasts = {"slow": 12, "quick": 4}
    tides = [Tide(name=name, steps=rise_and_fall(4, ms * MS), iterations=48 // ms) for name, ms in lasts.items()]
    facts = engine.run(Scene(tides=tides, budget=40, policy=POLICIES.make("salus-fair")))
    facts.check_all_ended()
    had = dict.fromkeys(lasts, 0)
    for event in facts.events(IterationEnded):
        had[event.job] += lasts[event.job] * event.iterations
        assert abs(had["slow"] - had["quick"]) <= 12
    assert set(had.values()) == {48}


@engines()
def test_gandiva_suspends_the_owner_of_a_slice_between_iterations_when_the_slice_is_over(engine: Engine) -> None:
    slice_ns = 30_000_000
    tides = [Tide(name=name, steps=rise_and_fall(6, 12 * MS), iterations=8) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=9, policy=Gandiva(slice_ns=slice_ns)))
    facts.check_all_ended()
    came: dict[str, int] = {}
    suspended = 0
    for entry in facts.entries:
        match entry:
            case Decided(action=Admit(job=job) | Resume(job=job)):
                came[job] = entry.at_ns
            case Decided(action=Suspend(job=job)):
                suspended += 1
                assert entry.at_ns - came[job] >= slice_ns
                (seen,) = [each for view, each in facts.seen(job) if view.now_ns == entry.at_ns][-1:]
                assert seen.state is JobState.READY
    assert suspended >= 2  # eight iterations of 12 ms are three slices


@CONTENDED
def test_gandiva_packs_a_waiting_job_beside_the_owner_and_unpacks_it_when_that_does_not_pay(engine: Engine) -> None:
    # Two jobs that fill the device take twice as long side by side: that gains nothing over taking turns.
    tides = [Tide(name=name, steps=(Step(1, 4 * MS, width=SMS),) * 4, iterations=6) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=40, policy=Gandiva()))
    facts.check_all_ended()
    assert [entry.action for entry in facts.decided(Admit)] == [Admit("a", 0), Admit("b", 1)]
    (leaves,) = facts.decided(Suspend)
    assert leaves.action == Suspend("b")
    assert facts.place(facts.events(JobEnded, "a")[0]) < facts.place(facts.decided(Resume, "b")[0])


@engines()
def test_antman_reserves_the_peak_of_the_guaranteed_job_and_suspends_a_job_that_does_not_fit_beside_it(
    engine: Engine,
) -> None:
    # Of 10 leases the guaranteed job needs 6 at its peak. `fits` needs 3 of the other 4, and `large` 5 between its
    # iterations already; one with less there would overflow (test_overflow.py).
    guaranteed = Tide(name="guaranteed", steps=rise_and_fall(5), iterations=12, priority=1)
    tides = [
        Tide(name="large", persistent=5, steps=rise_and_fall(2), iterations=4),
        guaranteed,
        Tide(name="fits", steps=rise_and_fall(2), iterations=4),
    ]
    facts = engine.run(Scene(tides=tides, budget=10, policy=AntMan(bound=100)))
    facts.check_all_ended()
    end = facts.place(facts.events(JobEnded, "guaranteed")[0])
    assert all(facts.place(event) > end for event in facts.events(IterationEnded, "large"))
    assert any(facts.place(event) < end for event in facts.events(IterationEnded, "fits"))


@CONTENDED
def test_antman_delays_the_ops_of_other_jobs_while_the_guaranteed_one_is_behind(engine: Engine) -> None:
    # Side by side both take twice as long. With the delays, the guaranteed job's ten iterations take 1.1 times the
    # 160 ms that they take alone, and at most two iterations more before that is noticed.
    steps = (Step(1, 4 * MS, width=SMS),) * 4
    tides = [
        Tide(name="guaranteed", steps=steps, iterations=10, priority=1),
        Tide(name="other", steps=steps, iterations=10),
    ]
    facts = engine.run(Scene(tides=tides, budget=40, policy=AntMan()))
    facts.check_all_ended()
    gates = [entry.action.open for entry in facts.decided(SetGate, "other")]  # type: ignore[attr-defined]
    assert gates[0] is False
    took = sum(event.took_ns for event in facts.events(IterationEnded, "guaranteed"))
    assert took <= (1.1 * 160 + 2 * 16) * 1e6


@engines()
def test_ticktock_starts_an_iteration_right_after_the_forward_pass_of_the_other_and_never_before(
    engine: Engine,
) -> None:
    tides = [Tide(name=name, steps=rise_and_fall(4, 24 * MS), iterations=4) for name in "ab"]
    facts = engine.run(Scene(tides=tides, budget=40, policy=TickTock()))
    facts.check_all_ended()
    # A device tells how far an iteration is before it tells of the end of its forward pass: the view has both.
    passed = {
        (view.now_ns, job.name)
        for view in facts.views
        for job in view.running
        if job.position_ns >= job.profile.forward_ns
    }
    in_forward: set[str] = set()
    running: set[str] = set()
    side_by_side = 0
    for entry in facts.entries:
        match entry:
            case Decided(action=Start(job=job)):
                assert all((entry.at_ns, other) in passed for other in in_forward)
                side_by_side += len(running)
                in_forward.add(job)
                running.add(job)
            case PhaseEnded(job=job, phase=Phase.FORWARD):
                in_forward.discard(job)
            case IterationEnded(job=job):
                in_forward.discard(job)
                running.discard(job)
    assert side_by_side >= 4  # in the steady state each begins in the other's backward pass


@VIRTUAL
def test_under_ticktock_the_heavy_ops_of_a_second_backward_pass_wait_for_the_end_of_the_first(engine: Engine) -> None:
    # The tock begins at 4 ms, when the tick's forward pass ends, and would be in its backward pass long before the
    # tick's ends.
    forward, backward = Step(1, 4 * MS), Step(1, 20 * MS, width=SMS, phase=Phase.BACKWARD)
    tides = [Tide(name=name, steps=(forward, backward)) for name in ("tick", "tock")]
    facts = engine.run(Scene(tides=tides, budget=40, policy=TickTock()))
    facts.check_all_ended()
    closed, opened = facts.decided(SetGate, "tock")
    assert (closed.action.open, opened.action.open) == (False, True)  # type: ignore[attr-defined]
    ends = {event.job: event.at_ns for event in facts.events(IterationEnded)}
    assert opened.at_ns >= ends["tick"]
    assert ends["tock"] - ends["tick"] >= 20_000_000 - 1_000_000
