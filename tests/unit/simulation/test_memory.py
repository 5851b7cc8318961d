"""Which job gets memory, which one waits, and what happens when the budget changes."""

from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.control import events as ev
from neaptide.core.control.actions import Action, Admit, Resume, SetGate, SetLimit, Start, Suspend, WakeAt
from neaptide.core.control.controller import Refused
from neaptide.core.control.job import Job
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Phase, Trace
from neaptide.simulation import Outcome, Submission, simulate
from simple_policies import Everything, Paging, Told

DEVICE = find_device("V100-16GB")  # 12 GB/s to the host
SECOND = 1_000_000_000


def steps(*needs: int, persistent: int = 0, fill: float = 0.0, moved: int = 0) -> Trace:
    """Ops of one second each that need these bytes beside the persistent ones; no tensor lives on between ops."""
    tensors = [Tensor(bytes=need, born=op, died=op) for op, need in enumerate(needs)]
    weight = Tensor(bytes=persistent, born=-1, died=len(needs))
    return make_trace([Op(seconds=1.0, fill=fill, moved_bytes=moved) for _ in needs], [*tensors, weight])


def hill(*needs: int, persistent: int = 0) -> Trace:
    """The same, but tensors are kept to the end, so needs must rise."""
    n = len(needs)
    tensors = [
        Tensor(bytes=need - before, born=op, died=n - 1)
        for op, (before, need) in enumerate(zip((0, *needs), needs, strict=False))
    ]
    return make_trace([Op(seconds=1.0, fill=0.0) for _ in needs], [*tensors, Tensor(bytes=persistent, born=-1, died=n)])


def jobs(**traces: Trace) -> list[Submission]:
    return [Submission(Job(name=name, trace=trace, iterations=1)) for name, trace in traces.items()]


def times(outcome: Outcome, kind: type[ev.Event]) -> dict[str, int]:
    return {e.job: e.at_ns for e in outcome.entries if isinstance(e, kind)}  # type: ignore[attr-defined]


def test_a_younger_iteration_waits_while_an_older_one_could_not_finish_beside_it() -> None:
    """The banker's rule: there is room for the younger one now, but not when the older one reaches its peak."""
    outcome = simulate(jobs(old=hill(10, 20, 90), young=hill(30)), DEVICE, 100, Everything())
    assert times(outcome, ev.JobStalled) == {"young": 0}
    assert times(outcome, ev.IterationEnded) == {"old": 3 * SECOND, "young": 4 * SECOND}
    assert outcome.peak_bytes == 90


def test_a_younger_iteration_goes_on_as_soon_as_the_older_ones_peak_is_past() -> None:
    outcome = simulate(jobs(old=steps(10, 90, 20, 20), young=hill(30)), DEVICE, 100, Everything())
    assert times(outcome, ev.IterationEnded) == {"old": 4 * SECOND, "young": 3 * SECOND}


def test_an_iteration_that_fits_beside_the_older_ones_peak_runs_at_once() -> None:
    outcome = simulate(jobs(old=hill(10, 20, 70), young=hill(30)), DEVICE, 100, Everything())
    assert times(outcome, ev.IterationEnded) == {"old": 3 * SECOND, "young": SECOND}
    assert times(outcome, ev.JobStalled) == {}


def test_a_stall_is_reported_once_per_iteration_and_only_when_the_device_has_no_op_left() -> None:
    ahead = make_trace(
        [Op(seconds=1.0, fill=0.0), Op(seconds=1.0, fill=0.0), Op(seconds=1.0, fill=0.0)],
        [Tensor(bytes=30, born=1, died=1), Tensor(bytes=40, born=2, died=2)],
        asynchronous=True,
    )
    outcome = simulate(jobs(old=hill(10, 20, 90), young=ahead), DEVICE, 100, Everything())
    stalls = [entry for entry in outcome.entries if isinstance(entry, ev.JobStalled)]
    assert stalls == [ev.JobStalled(SECOND, "young")]  # its first op needed nothing


def test_a_second_stall_in_one_iteration_is_not_reported() -> None:
    twice = steps(30, 0, 30)
    old = make_trace(
        [Op(seconds=1.5, fill=0.0) for _ in range(4)], [Tensor(bytes=90, born=op, died=op) for op in (1, 3)]
    )
    outcome = simulate(jobs(old=old, young=twice), DEVICE, 100, Everything())
    stalls = [entry for entry in outcome.entries if isinstance(entry, ev.JobStalled)]
    assert stalls == [ev.JobStalled(0, "young")]
    assert times(outcome, ev.IterationEnded)["young"] == 9 * SECOND


def test_a_job_that_comes_in_waits_for_room_and_no_younger_iteration_takes_it() -> None:
    def tell(view: View) -> list[Action]:
        match view.event:
            case ev.JobArrived(_, "a" | "b"):
                return [Admit(view.event.job), Start(view.event.job)]
            case ev.JobArrived(_, "c"):
                return [Admit("c")]
            case ev.IterationEnded(_, name) if name != "c":
                return [Start("c")]
        return []

    subs = jobs(a=hill(20, 30), b=hill(21, 40, 40), c=steps(10, persistent=50))
    subs[2] = Submission(subs[2].job, SECOND // 2)
    outcome = simulate(subs, DEVICE, 100, Told(tell, everything=False))
    assert outcome.memory["c"].at_ns[0] == 2 * SECOND  # when a has ended: 50 does not fit beside a's 30 and b's 21
    assert times(outcome, ev.IterationEnded)["b"] == 4 * SECOND  # from 1 s on it waits: bytes are reserved for c
    assert outcome.over_budget_bytes == 0


def test_when_the_budget_falls_the_youngest_iteration_is_evicted_and_later_restored() -> None:
    outcome = simulate(
        jobs(old=hill(10, 20, 60), young=hill(30, 35, 40)),
        DEVICE,
        100,
        Everything(),
        budget_changes=[(SECOND // 2, 70)],
    )
    assert times(outcome, ev.JobEvicted) == {"young": 2 * SECOND}
    assert outcome.over_budget_bytes == 0
    ends = times(outcome, ev.IterationEnded)
    assert ends["old"] == 3 * SECOND + 3  # 30 or 35 bytes take 3 ns to leave
    back = times(outcome, ev.JobResumed)["young"]
    assert ends["old"] <= back <= ends["old"] + 4
    assert ends["young"] > back
    assert {"old", "young"} == set(times(outcome, ev.JobEnded))


def test_after_a_budget_cut_excess_bytes_are_counted_and_an_idle_job_is_evicted_for_an_iteration() -> None:
    def tell(view: View) -> list[Action]:
        return [Start("a")] if isinstance(view.event, ev.BudgetChanged) else []

    idle = Submission(Job(name="idle", trace=steps(0, persistent=50), iterations=1))
    a = Submission(Job(name="a", trace=steps(30, persistent=20), iterations=1))

    def admit_all(view: View) -> list[Action]:
        return [Admit(job.name) for job in view.queued] + tell(view)

    outcome = simulate([a, idle], DEVICE, 100, Told(admit_all, everything=False), budget_changes=[(SECOND, 60)])
    assert outcome.over_budget_bytes == 10
    assert times(outcome, ev.JobEvicted) == {"idle": SECOND}
    assert times(outcome, ev.JobEnded) == {"a": 2 * SECOND + 5}


def test_an_evicted_job_that_no_longer_fits_does_not_hold_up_jobs_that_fit() -> None:
    """There is no room for all three jobs any more; the two that fit still run side by side."""
    subs = [Submission(Job(name=name, trace=steps(10, persistent=10), iterations=3)) for name in "ab"]
    subs.append(Submission(Job(name="idle", trace=steps(10, persistent=50), iterations=1)))

    def tell(view: View) -> list[Action]:
        admitted: list[Action] = [Admit(job.name) for job in view.queued]
        return [*admitted, *(Start(job.name) for job in view.startable if job.name != "idle")]

    outcome = simulate(subs, DEVICE, 100, Told(tell, everything=False), budget_changes=[(SECOND, 45)])
    assert set(times(outcome, ev.JobEvicted)) == {"b", "idle"}
    ends = times(outcome, ev.JobEnded)
    assert 3 * SECOND <= min(ends["a"], ends["b"]) <= max(ends["a"], ends["b"]) < 3 * SECOND + 100
    assert set(times(outcome, ev.JobResumed)) == {"b"}


def test_a_job_that_needs_more_than_the_budget_will_ever_be_fails_with_the_figures() -> None:
    subs = [*jobs(big=hill(10, 90)), Submission(Job(name="small", trace=hill(10, 10), iterations=3))]
    outcome = simulate(subs, DEVICE, 100, Everything(), budget_changes=[(SECOND // 2, 50)])
    assert [e for e in outcome.entries if isinstance(e, ev.JobFailed)] == [
        ev.JobFailed(2 * SECOND, "big", "out of memory: it needs 90 B and may hold 50 B")
    ]
    assert "small" in times(outcome, ev.JobEnded)


def test_a_job_that_needs_more_than_the_budget_waits_if_the_budget_will_rise() -> None:
    changes = [(SECOND // 2, 50), (9 * SECOND, 100)]
    outcome = simulate(jobs(big=hill(10, 90)), DEVICE, 100, Everything(), budget_changes=changes)
    assert times(outcome, ev.JobEnded) == {"big": 10 * SECOND}


def test_a_job_that_needs_more_than_its_ceiling_fails() -> None:
    def tell(view: View) -> list[Action]:
        return [Admit(job.name, ceiling_bytes=50) for job in view.queued]

    outcome = simulate(jobs(a=hill(10, 45, persistent=5), b=hill(10, 46, persistent=5)), DEVICE, 1000, Told(tell))
    failed = [entry for entry in outcome.entries if isinstance(entry, ev.JobFailed)]
    assert failed == [ev.JobFailed(SECOND, "b", "out of memory: it needs 51 B and may hold 50 B")]
    assert times(outcome, ev.JobEnded) == {"a": 2 * SECOND}
    assert outcome.memory["b"].held_bytes[-1] == 0


def test_a_persistent_part_above_the_ceiling_fails_at_once() -> None:
    def tell(view: View) -> list[Action]:
        return [Admit(job.name, ceiling_bytes=4) for job in view.queued]

    outcome = simulate(jobs(a=hill(10, persistent=5)), DEVICE, 1000, Told(tell))
    assert times(outcome, ev.JobFailed) == {"a": 0}
    assert outcome.peak_bytes == 0


def test_an_iteration_behind_a_closed_gate_is_evicted_for_one_that_waits_for_memory() -> None:
    """Without the eviction both would wait for ever: the gate opens only after the younger iteration."""

    def tell(view: View) -> list[Action]:
        match view.event:
            case ev.PhaseEnded(_, "old"):
                return [SetGate("old", False)]
            case ev.JobResumed(_, "old"):
                return [SetGate("old", True)]
        return []

    ops = [Op(seconds=1.0), Op(seconds=1.0, phase=Phase.BACKWARD)]
    old = make_trace(ops, [Tensor(bytes=60, born=0, died=1)])
    outcome = simulate(jobs(old=old, young=hill(50)), DEVICE, 100, Told(tell))
    assert times(outcome, ev.JobEvicted) == {"old": SECOND}
    assert times(outcome, ev.JobEnded) == {"young": 2 * SECOND + 5, "old": 3 * SECOND + 10}  # 5 ns each way


PAGING_SHARE = 8.2 / 12  # core/rules/over_the_link.h


def test_a_policy_that_oversubscribes_pays_for_paging_with_time() -> None:
    """100 bytes held with room for 50: half of what the op moves is fetched, and as much written back, at 8.2 GB/s."""
    moved = round(PAGING_SHARE * DEVICE.link_bandwidth)
    assert moved == 8_200_000_000
    outcome = simulate(jobs(a=steps(100, moved=moved)), DEVICE, 50, Paging())
    assert outcome.end_ns == pytest.approx(2 * SECOND, abs=1)  # whole nanoseconds
    assert outcome.over_budget_bytes == 50
    within = simulate(jobs(a=steps(100, moved=moved)), DEVICE, 100, Paging())
    assert within.end_ns == SECOND


def test_paging_ops_share_the_link() -> None:
    moved = round(PAGING_SHARE * DEVICE.link_bandwidth)

    def pair(times_moved: int) -> list[Submission]:
        trace = steps(0, persistent=50, moved=times_moved * moved)
        return jobs(a=trace, b=trace)

    outcome = simulate(pair(1), DEVICE, 50, Paging())
    alone = 1.0 + 1.0  # a second of work and a second of paging
    assert outcome.end_ns / SECOND == pytest.approx(alone, rel=0.01)  # each job uses half of the link, so both fit
    tight = simulate(pair(9), DEVICE, 50, Paging())
    assert tight.end_ns / SECOND == pytest.approx(18.0, rel=0.01)  # nine seconds of paging each, one after another


def limited_to(limit: int) -> Told:
    """Starts everything, and first limits job a."""
    return Told(lambda view: [SetLimit("a", limit)] if isinstance(view.event, ev.JobArrived) else [])


def test_what_a_job_needs_beyond_its_limit_is_in_host_memory_and_costs_time_over_the_link() -> None:
    """20 bytes persistent and 80 in the op with a limit of 75: a quarter of the op's bytes crosses the link."""
    moved = round(DEVICE.link_bandwidth)
    outcome = simulate(jobs(a=steps(80, 50, persistent=20, moved=moved)), DEVICE, 100, limited_to(75))
    assert outcome.end_ns == 2.25 * SECOND  # the second op is within the limit
    assert outcome.peak_bytes == 75
    assert outcome.over_budget_bytes == 0


def test_a_job_that_overflows_runs_beside_another_that_has_its_whole_peak() -> None:
    """Without the limit, the younger iteration would wait until the older one has ended."""
    tides = jobs(b=hill(60), a=steps(60, persistent=10))
    assert times(simulate(tides, DEVICE, 100, Everything()), ev.JobEnded) == {"b": SECOND, "a": 2 * SECOND}
    outcome = simulate(tides, DEVICE, 100, limited_to(40))
    assert times(outcome, ev.JobEnded) == {"b": SECOND, "a": SECOND}
    assert outcome.peak_bytes == 100


def test_only_what_is_on_the_device_moves_when_a_job_that_overflows_is_suspended() -> None:
    """40 of its 70 bytes leave after its first op, and return: 4 ns each way."""

    def tell(view: View) -> list[Action]:
        match view.event:
            case ev.JobArrived():
                return [SetLimit("a", 40), WakeAt(SECOND // 2)]
            case ev.Woken():
                return [Suspend("a")]
            case ev.JobSuspended():
                return [Resume("a")]
        return []

    steady = make_trace([Op(seconds=1.0), Op(seconds=1.0)], [Tensor(bytes=70, born=0, died=1)])
    outcome = simulate(jobs(a=steady), DEVICE, 100, Told(tell))
    assert outcome.end_ns == 2 * SECOND + 8
    assert outcome.peak_bytes == 40


def test_a_limit_below_what_a_job_holds_between_iterations_is_refused() -> None:
    outcome = simulate(jobs(a=steps(80, persistent=20)), DEVICE, 100, limited_to(19))
    refused = [entry for entry in outcome.entries if isinstance(entry, Refused)]
    assert [entry.reason for entry in refused] == ["between iterations it holds 20 B on the device"]
