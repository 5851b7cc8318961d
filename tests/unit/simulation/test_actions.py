"""What the engine does when a policy asks: gates, plans, suspension and return, caps, lanes."""

from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.control import events as ev
from neaptide.core.control.actions import (
    Action,
    Admit,
    CapInFlight,
    MoveLane,
    Resume,
    SetGate,
    SetPlan,
    Start,
    Suspend,
    WakeAt,
)
from neaptide.core.control.job import Job
from neaptide.core.control.policy import Need
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.simulation import Outcome, Submission, simulate
from simple_policies import Everything, Told

DEVICE = find_device("V100-16GB")
SECOND = 1_000_000_000
LINK = int(DEVICE.link_bandwidth)  # bytes that are copied in a second


def flat(ops: int, level: int = 0, persistent: int = 0, fill: float = 0.0) -> Trace:
    """Ops of one second each that hold the same bytes all the time."""
    tensors = [Tensor(bytes=level, born=0, died=ops - 1), Tensor(bytes=persistent, born=-1, died=ops)]
    return make_trace([Op(seconds=1.0, fill=fill) for _ in range(ops)], tensors)


def run(trace: Trace, plan: dict[float, list[Action]], *others: Trace, iterations: int = 1, **kinds: object) -> Outcome:
    """Do the planned actions at their times, in seconds, and start everything that is ready."""
    times = sorted(plan)

    def tell(view: View) -> list[Action]:
        now = view.now_ns / SECOND
        due = plan.get(now, []) if isinstance(view.event, ev.Woken) else []
        later = [time for time in times if time > now]
        return [*due, *([WakeAt(round(later[0] * SECOND))] if later else [])]

    jobs = [Job(name="a", trace=trace, iterations=iterations, **kinds)]  # type: ignore[arg-type]
    jobs += [Job(name=f"b{i}", trace=each, iterations=1) for i, each in enumerate(others)]
    return simulate([Submission(job) for job in jobs], DEVICE, 100 * LINK, Told(tell))


def when(outcome: Outcome, kind: type[ev.Event], job: str = "a") -> list[float]:
    return [e.at_ns / SECOND for e in outcome.entries if isinstance(e, kind) and e.job == job]  # type: ignore[attr-defined]


def test_a_closed_gate_holds_heavy_ops_before_they_start_and_never_one_that_runs() -> None:
    outcome = run(flat(3, fill=0.9), {0.5: [SetGate("a", False)], 5.0: [SetGate("a", True)]})
    assert when(outcome, ev.IterationEnded) == [7.0]


def test_a_closed_gate_holds_ops_that_were_launched_ahead_as_well() -> None:
    ahead = make_trace([Op(seconds=1.0, fill=0.9) for _ in range(3)], asynchronous=True)
    outcome = run(ahead, {0.5: [SetGate("a", False)], 5.0: [SetGate("a", True)]}, flat(1, fill=0.9))
    # b runs beside the first op of a; after that no op of a runs.
    assert when(outcome, ev.IterationEnded, "b0") == pytest.approx([1.8], rel=1e-6)
    assert when(outcome, ev.IterationEnded) == [7.0]


def test_light_ops_pass_a_closed_gate() -> None:
    mixed = make_trace([Op(seconds=1.0, fill=0.4), Op(seconds=1.0, fill=0.9), Op(seconds=1.0, fill=0.0)])
    outcome = run(mixed, {0.5: [SetGate("a", False)], 5.0: [SetGate("a", True)]})
    assert when(outcome, ev.IterationEnded) == [7.0]
    light = make_trace([Op(seconds=1.0, fill=0.4), Op(seconds=1.0, fill=0.0)])
    assert when(run(light, {0.5: [SetGate("a", False)]}), ev.IterationEnded) == [2.0]


def test_an_op_held_by_the_gate_slows_no_other_op() -> None:
    outcome = run(flat(2, fill=1.0), {1.0: [SetGate("a", False)], 4.0: [SetGate("a", True)]}, flat(3, fill=1.0))
    # Both jobs run side by side at half speed until a's first op ends at 2 s; a's second op is held.
    assert when(outcome, ev.IterationEnded, "b0") == [4.0]
    assert when(outcome, ev.IterationEnded) == [5.0]


def test_a_plan_takes_effect_with_the_next_iteration() -> None:
    small, large = flat(2, level=5, persistent=10), flat(1, level=100, persistent=20)

    def tell(view: View) -> list[Action]:
        match view.event:
            case ev.JobArrived():
                return [Admit("a"), SetPlan("a", 1), Start("a")]
            case ev.IterationEnded() if view.jobs[0].iterations_done == 1:
                return [SetPlan("a", 0), Start("a")]
        return [Start("a")] if isinstance(view.event, ev.IterationEnded) else []

    job = Job(name="a", trace=large, alternatives=(small,), iterations=2)
    outcome = simulate([Submission(job)], DEVICE, 1000, Told(tell, everything=False))
    assert when(outcome, ev.IterationEnded) == [2.0, 3.0]
    series = outcome.memory["a"]
    assert list(zip(series.at_ns.tolist(), series.held_bytes.tolist(), strict=True)) == [
        (0, 15),
        (2 * SECOND, 120),
        (3 * SECOND, 0),
    ]


def test_a_job_suspended_inside_an_iteration_ends_its_op_is_copied_out_and_resumes_there() -> None:
    trace = flat(3, level=LINK, persistent=LINK)
    outcome = run(trace, {0.5: [Suspend("a")], 6.0: [Resume("a")]})
    assert when(outcome, ev.JobSuspended) == [3.0]  # the op ends at 1 s; two seconds' worth of bytes leave
    assert when(outcome, ev.JobResumed) == [8.0]
    assert when(outcome, ev.IterationEnded) == [10.0]
    series = outcome.memory["a"]
    assert list(zip((series.at_ns / SECOND).tolist(), (series.held_bytes // LINK).tolist(), strict=True)) == [
        (0.0, 2),
        (3.0, 0),  # bytes leave as the copy ends
        (6.0, 2),  # bytes are taken as the copy back begins
        (10.0, 0),
    ]


def test_a_job_resumed_while_it_is_copied_out_returns_when_the_copy_has_ended() -> None:
    outcome = run(flat(3, persistent=LINK), {0.5: [Suspend("a")], 1.5: [Resume("a")]})
    assert when(outcome, ev.JobSuspended) == [2.0]
    assert when(outcome, ev.JobResumed) == [3.0]
    assert when(outcome, ev.IterationEnded) == [5.0]


def test_a_job_suspended_while_it_is_copied_in_leaves_when_the_copy_has_ended() -> None:
    plan: dict[float, list[Action]] = {0.5: [Suspend("a")], 4.0: [Resume("a")], 4.5: [Suspend("a")], 9.0: [Resume("a")]}
    outcome = run(flat(3, persistent=LINK), plan)
    assert when(outcome, ev.JobSuspended) == [2.0, 6.0]
    assert when(outcome, ev.JobResumed) == [10.0]
    assert when(outcome, ev.IterationEnded) == [12.0]


def test_an_iteration_whose_last_op_ends_while_it_is_suspended_ends_after_its_return() -> None:
    outcome = run(flat(1, persistent=LINK), {0.5: [Suspend("a")], 4.0: [Resume("a")]})
    assert when(outcome, ev.JobSuspended) == [2.0]
    assert when(outcome, ev.JobResumed) == [5.0]
    assert when(outcome, ev.IterationEnded) == [5.0]
    assert when(outcome, ev.JobEnded) == [5.0]


def test_copies_of_one_direction_go_one_after_another_and_the_directions_side_by_side() -> None:
    def tell(view: View) -> list[Action]:
        match view.event:
            case ev.JobArrived(_, name):
                return [Admit(name), WakeAt(2 * SECOND)]
            case ev.Woken(at_ns) if at_ns == 2 * SECOND:
                return [Suspend("a"), WakeAt(10 * SECOND)]
            case ev.Woken():
                return [Suspend("b"), Suspend("c"), Resume("a"), Start("a")]
            case ev.JobSuspended(_, "c"):
                return [Resume("b"), Resume("c"), Start("b"), Start("c")]
        return []

    submissions = [Submission(Job(name=name, trace=flat(1, persistent=LINK), iterations=1)) for name in "abc"]
    outcome = simulate(submissions, DEVICE, 100 * LINK, Told(tell, everything=False))
    assert when(outcome, ev.JobSuspended, "b") == [11.0]
    assert when(outcome, ev.JobSuspended, "c") == [12.0]
    assert when(outcome, ev.JobResumed, "a") == [11.0]
    assert when(outcome, ev.IterationEnded, "a") == [12.0]
    assert when(outcome, ev.JobResumed, "b") == [13.0]
    assert when(outcome, ev.JobResumed, "c") == [14.0]


def test_a_raised_cap_lets_the_host_go_on_at_once() -> None:
    tensors = [Tensor(bytes=10 * (op + 1), born=op, died=op) for op in range(4)]
    trace = make_trace([Op(seconds=1.0) for _ in range(4)], tensors, asynchronous=True)

    def held(*later: Action) -> list[tuple[float, int]]:
        def tell(view: View) -> list[Action]:
            match view.event:
                case ev.JobArrived():
                    return [CapInFlight("a", 1), WakeAt(SECOND // 2)]
                case ev.Woken():
                    return list(later)
            return []

        series = simulate([Submission(Job(name="a", trace=trace, iterations=1))], DEVICE, 100, Told(tell)).memory["a"]
        return list(zip((series.at_ns / SECOND).tolist(), series.held_bytes.tolist(), strict=True))

    assert held() == [(0.0, 20), (1.0, 30), (2.0, 40), (4.0, 0)]
    assert held(CapInFlight("a", 2)) == [(0.0, 20), (0.5, 30), (1.0, 40), (4.0, 0)]
    assert held(CapInFlight("a", None)) == [(0.0, 20), (0.5, 40), (4.0, 0)]


def test_the_simulator_ignores_lanes() -> None:
    plain = run(flat(3), {})
    moved = run(flat(3), {0.5: [MoveLane("a", 2)]})
    assert when(plain, ev.IterationEnded) == when(moved, ev.IterationEnded) == [3.0]


def test_an_action_on_a_job_that_has_done_its_work_is_ignored_and_the_job_ends() -> None:
    def tell(view: View) -> list[Action]:
        return [Start("a"), Suspend("a")] if isinstance(view.event, ev.IterationEnded) else []

    outcome = simulate([Submission(Job(name="a", trace=flat(1), iterations=1))], DEVICE, 100, Told(tell))
    assert when(outcome, ev.IterationEnded) == when(outcome, ev.JobEnded) == [1.0]
    assert when(outcome, ev.JobSuspended) == []


def test_the_engine_supplies_whatever_a_policy_may_need() -> None:
    class Needy(Everything):
        name = "needy"
        needs = frozenset(Need) - {Need.HOLDING}

    assert simulate([Submission(Job(name="a", trace=flat(1), iterations=1))], DEVICE, 1, Needy()).policy == "needy"
