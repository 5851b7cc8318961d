from neaptide.core.control.actions import SetGate, Start
from neaptide.core.control.events import PhaseEnded
from neaptide.core.control.job import JobState
from neaptide.core.traces.trace import Phase
from neaptide.policies.ticktock import TickTock
from views import job, tide, view

RUNNING = JobState.RUNNING
WAVE = tide(5, 9, 9, 5, step_ns=10, forward_ns=20)


def test_the_tock_waits_while_the_tick_is_in_its_forward_pass() -> None:
    assert TickTock().decide(view(job("tick", WAVE, state=RUNNING, position_ns=19), job("tock", WAVE))) == []


def test_the_tock_starts_right_after_the_ticks_forward_pass() -> None:
    tick = job("tick", WAVE, state=RUNNING, position_ns=19)
    seen = view(tick, job("tock", WAVE), event=PhaseEnded(20, "tick", Phase.FORWARD))
    assert TickTock().decide(seen) == [Start("tock")]


def test_two_backward_passes_never_run_at_once() -> None:
    tick = job("tick", WAVE, state=RUNNING, position_ns=35, started_ns=0)
    tock = job("tock", WAVE, state=RUNNING, position_ns=20, started_ns=20)
    assert TickTock().decide(view(tock, tick)) == [SetGate("tock", open=False)]


def test_the_tock_goes_on_when_the_tick_has_ended_and_the_next_wave_starts_beside_it() -> None:
    tick = job("tick", WAVE, since_ns=60)
    tock = job("tock", WAVE, state=RUNNING, position_ns=20, started_ns=20, gate_open=False)
    assert TickTock().decide(view(tick, tock)) == [SetGate("tock", open=True), Start("tick")]


def test_a_third_job_takes_its_turn_and_never_runs_beside_two() -> None:
    tick = job("tick", WAVE, state=RUNNING, position_ns=30)
    tock = job("tock", WAVE, state=RUNNING, position_ns=5)
    assert TickTock().decide(view(tick, tock, job("third", WAVE))) == []
    seen = view(tick, job("tock", WAVE, since_ns=40), job("third", WAVE, since_ns=10))
    assert TickTock().decide(seen) == [Start("third")]


def test_ticktock_looks_at_phases_and_not_at_bytes() -> None:
    tick = job("tick", WAVE, state=RUNNING, position_ns=25)
    assert TickTock().decide(view(tick, job("tock", WAVE), budget=10)) == [Start("tock")]
