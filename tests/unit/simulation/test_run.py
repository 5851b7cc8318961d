"""Runs from submissions to an outcome."""

from __future__ import annotations

import msgspec
import pytest

from builders import Op, make_trace
from neaptide.core.control import events as ev
from neaptide.core.control.actions import Action, Start, WakeAt
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.view import View
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.simulation import Outcome, Submission, simulate
from neaptide.simulation import agenda as agenda_module
from simple_policies import Everything, Malicious, Told
from tides import MIB, tide

DEVICE = find_device("V100-16GB")
SECOND = 1_000_000_000


def second(batch: int = 1) -> Trace:
    return make_trace([Op(seconds=1.0, fill=0.0)], batch=batch)


def ended(outcome: Outcome) -> list[ev.IterationEnded]:
    return [entry for entry in outcome.entries if isinstance(entry, ev.IterationEnded)]


def test_a_batch_serves_the_oldest_requests_and_the_job_ends_with_the_last() -> None:
    job = Job(name="a", trace=second(batch=2), kind=JobKind.INFERENCE)
    requests = tuple(at * SECOND // 10 for at in (1, 2, 3, 40))
    outcome = simulate([Submission(job, 0, requests)], DEVICE, 1, Everything())
    assert [(e.at_ns, e.arrivals_ns) for e in ended(outcome)] == [
        (11 * SECOND // 10, requests[:1]),
        (21 * SECOND // 10, requests[1:3]),
        (5 * SECOND, requests[3:]),
    ]
    assert outcome.entries[-1] == ev.JobEnded(5 * SECOND, "a")


def test_a_job_without_a_number_of_iterations_runs_until_the_others_have_ended() -> None:
    jobs = [Job(name="endless", trace=second()), Job(name="a", trace=second(), iterations=3)]
    outcome = simulate([Submission(job) for job in jobs], DEVICE, 1, Everything())
    assert outcome.end_ns == 3 * SECOND
    assert outcome.entries[-1] == ev.JobEnded(3 * SECOND, "a")


def test_a_run_ends_at_the_given_time() -> None:
    outcome = simulate([Submission(Job(name="a", trace=second()))], DEVICE, 1, Everything(), until_ns=5 * SECOND // 2)
    assert [e.at_ns for e in ended(outcome)] == [SECOND, 2 * SECOND]
    assert outcome.end_ns == 5 * SECOND // 2


def test_a_run_ends_when_nothing_can_happen_any_more() -> None:
    outcome = simulate(
        [Submission(Job(name="a", trace=second(), iterations=1))], DEVICE, 1, Told(lambda _: [], everything=False)
    )
    assert outcome.entries == (ev.JobArrived(0, "a"),)


def test_a_policy_that_does_nothing_but_ask_to_be_woken_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agenda_module, "_IDLE_WAKES", 50)

    def tell(view: View) -> list[Action]:
        return [WakeAt(view.now_ns + 1)]

    with pytest.raises(ValueError, match="woken 50 times in a row and let nothing happen"):
        simulate([Submission(Job(name="a", trace=second(), iterations=1))], DEVICE, 1, Told(tell, everything=False))


def test_a_later_wake_up_replaces_an_earlier_one() -> None:
    woken: list[int] = []

    def tell(view: View) -> list[Action]:
        if isinstance(view.event, ev.Woken):
            woken.append(view.now_ns)
            return []
        return [WakeAt(SECOND // 2), WakeAt(SECOND // 4)] if view.now_ns == 0 else []

    simulate([Submission(Job(name="a", trace=second(), iterations=1))], DEVICE, 1, Told(tell))
    assert woken == [SECOND // 4]


def test_requests_for_a_job_that_is_over_are_dropped() -> None:
    job = Job(name="a", trace=second(), kind=JobKind.INFERENCE, iterations=1)
    other = Job(name="b", trace=second(), iterations=9)
    outcome = simulate([Submission(job, 0, (0, 5 * SECOND)), Submission(other)], DEVICE, 1, Everything())
    assert [e.at_ns for e in outcome.entries if isinstance(e, ev.RequestArrived)] == [0]


def test_equal_inputs_give_equal_logs_byte_for_byte() -> None:
    def log(seed: int) -> bytes:
        traces = [tide(ops=40, seconds=0.01, fill=0.6, ephemeral=800 * MIB), tide(ops=30, seconds=0.02, fill=0.3)]
        jobs = [Job(name=f"job{i}", trace=traces[i % 2], iterations=4) for i in range(4)]
        outcome = simulate([Submission(job) for job in jobs], DEVICE, 1800 * MIB, Malicious(seed))
        return msgspec.json.encode(outcome.entries)

    assert log(1) == log(1)
    assert log(1) != log(2)


def test_decisions_are_counted() -> None:
    outcome = simulate([Submission(Job(name="a", trace=second(), iterations=2))], DEVICE, 1, Everything())
    assert outcome.decisions == 4  # the arrival, two iterations and the end
    assert outcome.decision_seconds > 0


def test_names_budgets_and_times_that_make_no_sense_are_refused() -> None:
    job = Job(name="a", trace=second(), iterations=1)
    policy = Everything()
    with pytest.raises(ValueError, match="there is no job to simulate"):
        simulate([], DEVICE, 1, policy)
    with pytest.raises(ValueError, match="two jobs are called 'a'; give each its own name"):
        simulate([Submission(job), Submission(job)], DEVICE, 1, policy)
    with pytest.raises(ValueError, match="no job says how many iterations it has"):
        simulate([Submission(Job(name="a", trace=second()))], DEVICE, 1, policy)
    with pytest.raises(ValueError, match=r"a budget must be positive .* not 0 bytes at 7 ns"):
        simulate([Submission(job)], DEVICE, 1, policy, budget_changes=[(7, 0)])
    with pytest.raises(ValueError, match="until a time after 0"):
        simulate([Submission(job)], DEVICE, 1, policy, until_ns=0)
    with pytest.raises(ValueError, match="job a arrives before the run begins, at -1 ns"):
        Submission(job, -1)
    with pytest.raises(ValueError, match="job a trains, so it takes no requests"):
        Submission(job, 0, (1,))
    with pytest.raises(ValueError, match="a request for job s comes before the job, at 3 ns"):
        Submission(Job(name="s", trace=second(), kind=JobKind.INFERENCE), 5, (9, 3))
    long = Job(name="a", trace=make_trace([Op(seconds=5000.0)]), iterations=1)
    with pytest.raises(ValueError, match="an op of 5000 s is too long"):
        simulate([Submission(long)], DEVICE, 1, policy)


def test_an_action_that_the_ledger_refuses_changes_nothing() -> None:
    def tell(view: View) -> list[Action]:
        return [Start("a")] * 3 if view.running else []

    outcome = simulate([Submission(Job(name="a", trace=second(), iterations=1))], DEVICE, 1, Told(tell))
    assert len(ended(outcome)) == 1
