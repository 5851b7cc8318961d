"""What the ledger remembers for policies: service, fair shares, time in a lane, samples that are being served."""

from __future__ import annotations

from typing import Any

from builders import Op, Tensor, make_trace
from neaptide.core.control.actions import Action, Admit, MoveLane, Resume, Start, Suspend
from neaptide.core.control.engine import Observation
from neaptide.core.control.events import (
    BudgetChanged,
    CallWithdrawn,
    IterationEnded,
    JobArrived,
    JobEvicted,
    JobGrew,
    JobResumed,
    RequestAnswered,
    RequestArrived,
    RequestCalled,
    Woken,
)
from neaptide.core.control.job import READY, Job, JobKind, JobState
from neaptide.core.control.ledger import Ledger
from neaptide.core.control.view import JobView, View
from neaptide.core.traces.trace import Kind

SECOND = 10**9


def ledger(**kinds: JobKind) -> Ledger:
    """Jobs whose iterations take a second alone and serve two samples."""
    trace = make_trace([Op(seconds=1.0)], batch=2)
    made = Ledger([Job(name=name, trace=trace, kind=kind) for name, kind in kinds.items()], budget_bytes=100)
    for name in kinds:
        made.apply(JobArrived(0, name))
    return made


def do(made: Ledger, at_ns: int, *actions: Action) -> None:
    for action in actions:
        assert made.refusal(action, at_ns) is None
        made.commit(action, at_ns)


def iterate(made: Ledger, name: str, at_ns: int, took_ns: int = SECOND) -> None:
    do(made, at_ns, Start(name))
    made.apply(IterationEnded(at_ns + took_ns, name, took_ns))


def look(made: Ledger) -> View:
    return made.view(Woken(0), {job: Observation(0, 0) for job in made.visible_jobs()})


def seen(made: Ledger, name: str) -> JobView:
    view = look(made)
    return next(job for job in view.jobs if job.name == name)


def test_service_counts_time_alone_and_busy_time_counts_all() -> None:
    made = ledger(a=JobKind.TRAINING)
    do(made, 0, Admit("a"))
    for n in range(3):
        iterate(made, "a", n * 2 * SECOND, 2 * SECOND)
    assert seen(made, "a").service_ns == 3 * SECOND
    assert seen(made, "a").busy_ns == 6 * SECOND


def test_a_larger_iteration_counts_as_more_service_and_is_not_slower_beside_another() -> None:
    made = ledger(a=JobKind.TRAINING, b=JobKind.TRAINING)
    do(made, 0, Admit("a"), Admit("b"), Start("b"), Start("a"))
    made.apply(IterationEnded(3 * SECOND, "a", 3 * SECOND, work=2.5))
    assert seen(made, "a").service_ns == 2.5 * SECOND
    assert seen(made, "a").beside["b"] == 1.2


def test_a_policy_sees_the_grown_needs_of_a_job_that_grew() -> None:
    trace = make_trace([Op(seconds=1.0, scratch_bytes=40), Op(seconds=1.0, scratch_bytes=80)])
    made = Ledger([Job(name="a", trace=trace)], budget_bytes=1000)
    made.apply(JobArrived(0, "a"))
    before = seen(made, "a").profile
    made.apply(JobGrew(1, "a", before.persistent_bytes + 3 * before.ephemeral_bytes))
    after = seen(made, "a").profile
    assert (after.curve.bytes == 3 * before.curve.bytes).all()
    assert after.needs is not None
    assert after.needs.peak == after.ephemeral_bytes == 3 * before.ephemeral_bytes
    assert after.persistent_bytes == before.persistent_bytes
    made.apply(JobGrew(2, "a", before.peak_bytes))  # reported again by a job that has returned
    assert seen(made, "a").profile.peak_bytes == after.peak_bytes


def test_a_newcomer_starts_level_with_the_least_served_job_that_wants_to_run() -> None:
    made = ledger(a=JobKind.TRAINING, b=JobKind.TRAINING, idle=JobKind.INFERENCE, new=JobKind.TRAINING)
    do(made, 0, Admit("a"), Admit("b"), Admit("idle"))
    for n, name in enumerate("aaabb"):
        iterate(made, name, n * SECOND)
    do(made, 5 * SECOND, Admit("new"))
    assert seen(made, "new").share_ns == 2 * SECOND
    assert seen(made, "new").service_ns == 0


def test_an_inference_job_that_was_idle_starts_level_too_and_keeps_its_share_while_it_has_work() -> None:
    made = ledger(a=JobKind.TRAINING, b=JobKind.INFERENCE)
    do(made, 0, Admit("a"), Admit("b"))
    for n in range(3):
        iterate(made, "a", n * SECOND)
    made.apply(RequestArrived(3 * SECOND, "b"))
    assert seen(made, "b").share_ns == 3 * SECOND
    iterate(made, "a", 3 * SECOND)
    made.apply(RequestArrived(4 * SECOND, "b"))
    assert seen(made, "b").share_ns == 3 * SECOND


def test_the_time_in_a_lane_counts_from_admission_a_move_or_a_return() -> None:
    made = ledger(a=JobKind.TRAINING)
    do(made, 5, Admit("a", 0))
    assert seen(made, "a").lane_since_ns == 5
    do(made, 7, MoveLane("a", 1))
    assert seen(made, "a").lane_since_ns == 7
    do(made, 8, Suspend("a"))
    assert seen(made, "a").lane_since_ns == 7
    do(made, 9, Resume("a"))
    assert seen(made, "a").lane_since_ns == 9


def test_the_samples_of_the_running_iteration_are_known_until_it_ends() -> None:
    made = ledger(a=JobKind.INFERENCE)
    do(made, 0, Admit("a"))
    for at_ns in (1, 2, 3):
        made.apply(RequestArrived(at_ns, "a"))
    do(made, 4, Start("a"))
    assert seen(made, "a").serving == (1, 2)
    assert seen(made, "a").requests == (3,)
    made.apply(IterationEnded(5, "a", 1, (1, 2)))
    assert seen(made, "a").serving == ()


def test_a_request_that_is_expected_can_be_served_when_the_program_calls_its_model() -> None:
    made = ledger(a=JobKind.INFERENCE)
    do(made, 0, Admit("a"))
    made.apply(RequestArrived(5, "a", arrived_ns=3, expected=True, tracked=True))
    assert (seen(made, "a").requests, seen(made, "a").expected, seen(made, "a").arrivals) == ((), (3,), (3,))
    assert made.refusal(Start("a"), 6) == "no request waits for it"
    made.apply(RequestCalled(7, "a", 3))
    assert (seen(made, "a").requests, seen(made, "a").expected) == ((3,), ())
    do(made, 8, Start("a"))
    assert seen(made, "a").serving == (3,)


def test_the_arrivals_of_a_job_are_those_of_all_requests_oldest_first() -> None:
    made = ledger(a=JobKind.INFERENCE)
    for arrived_ns, expected in ((9, False), (4, True), (7, False), (8, True)):
        made.apply(RequestArrived(10, "a", arrived_ns=arrived_ns, expected=expected))
    assert seen(made, "a").arrivals == (4, 7, 8, 9)
    assert (seen(made, "a").requests, seen(made, "a").expected) == ((7, 9), (4, 8))


def test_requests_of_one_call_are_served_by_one_iteration_started_before_or_after() -> None:
    made = ledger(a=JobKind.INFERENCE)
    do(made, 0, Admit("a"))
    for at_ns in (1, 2, 3, 4):
        made.apply(RequestArrived(at_ns, "a", expected=True, tracked=True))
    made.apply(RequestCalled(5, "a", 1))
    made.apply(RequestCalled(5, "a", 2, joins=True))
    do(made, 6, Start("a"))
    assert seen(made, "a").serving == (1, 2)
    made.apply(RequestCalled(7, "a", 3, joins=True))
    assert seen(made, "a").serving == (1, 2, 3)
    assert (seen(made, "a").requests, seen(made, "a").expected) == ((), (4,))
    made.apply(IterationEnded(8, "a", 2, (1, 2, 3)))
    assert made.refusal(Start("a"), 9) == "no request waits for it"


def test_a_request_that_was_answered_waits_no_longer_but_its_call_for_an_iteration_does() -> None:
    made = ledger(a=JobKind.INFERENCE)
    do(made, 0, Admit("a"))
    for at_ns in (1, 2):
        made.apply(RequestArrived(at_ns, "a", expected=True, tracked=True))
    made.apply(RequestCalled(3, "a", 2))
    made.apply(RequestAnswered(4, "a", 1, 3))
    made.apply(RequestAnswered(4, "a", 2, 2))  # as when its client had waited long enough
    assert (seen(made, "a").requests, seen(made, "a").expected) == ((2,), ())
    made.apply(RequestAnswered(5, "a", 2, 3))  # answered twice, or after a loss of lines
    do(made, 6, Start("a"))
    made.apply(IterationEnded(7, "a", 1, (2,)))
    assert (seen(made, "a").arrivals, seen(made, "a").answering) == ((), ())


def test_a_call_whose_request_was_answered_before_its_iteration_is_no_second_answer() -> None:
    made = serving_ledger()
    for arrived_ns in (0, 1, 2):  # two of them are a batch
        made.apply(RequestArrived(2, "serve", arrived_ns=arrived_ns, tracked=True))
    do(made, 3, Start("serve"))
    made.apply(RequestAnswered(4, "serve", 2, 2))
    answered = made.account("serve").reserve
    made.apply(IterationEnded(5, "serve", 1, arrivals_ns=(0, 1)))
    do(made, 6, Start("serve"))
    made.apply(IterationEnded(SECOND, "serve", SECOND, arrivals_ns=(2,)))
    assert made.account("serve").reserve == answered


def test_no_iteration_is_to_come_for_a_call_that_was_withdrawn_and_its_request_may_call_again() -> None:
    made = ledger(a=JobKind.INFERENCE)
    do(made, 0, Admit("a"))
    made.apply(RequestArrived(1, "a", tracked=True))
    made.apply(RequestArrived(2, "a"))  # nobody will say when it is answered
    made.apply(CallWithdrawn(3, "a"))
    assert (seen(made, "a").requests, seen(made, "a").expected) == ((), (1,))
    assert seen(made, "a").expected_since == (3,)
    made.apply(RequestCalled(4, "a", 1))
    do(made, 5, Start("a"))
    made.apply(CallWithdrawn(6, "a"))  # its iteration was started and has not begun
    assert (seen(made, "a").state, seen(made, "a").serving, seen(made, "a").expected) == (READY, (), (1,))
    made.apply(RequestAnswered(7, "a", 1, 6))
    assert seen(made, "a").arrivals == ()


def test_a_job_suspended_before_its_call_was_withdrawn_returns_without_an_iteration() -> None:
    made = ledger(a=JobKind.INFERENCE)
    do(made, 0, Admit("a"))
    made.apply(RequestArrived(1, "a"))
    do(made, 2, Start("a"), Suspend("a"))
    made.apply(CallWithdrawn(3, "a"))
    do(made, 4, Resume("a"))
    assert seen(made, "a").state is READY


def test_since_when_a_request_is_known_may_be_long_after_its_arrival() -> None:
    made = ledger(a=JobKind.INFERENCE)
    for arrived_ns in (4, 1):
        made.apply(RequestArrived(9 - arrived_ns, "a", arrived_ns=arrived_ns, expected=True, tracked=True))
    assert (seen(made, "a").expected, seen(made, "a").expected_since) == ((1, 4), (8, 5))


def test_of_one_server_some_answers_are_told_and_others_are_the_ends_of_iterations() -> None:
    made = serving_ledger()
    made.apply(RequestArrived(1, "serve", tracked=True))
    made.apply(RequestArrived(2, "serve"))
    do(made, 3, Start("serve"))
    before = made.account("serve").reserve
    made.apply(IterationEnded(4, "serve", 1, arrivals_ns=(1, 2)))
    assert job_view(made).answering == (1,)
    assert made.account("serve").reserve < before


def test_a_job_that_the_engine_has_evicted_is_told_apart_from_a_suspended_one() -> None:
    made = ledger(a=JobKind.TRAINING, b=JobKind.TRAINING)
    do(made, 0, Admit("a"), Admit("b"), Start("a"), Suspend("b"))
    made.apply(JobEvicted(1, "a"))
    assert (seen(made, "a").evicted, seen(made, "b").evicted) == (True, False)


def test_a_suspended_job_that_becomes_unresponsive_is_hidden_and_suspended_still_when_it_responds() -> None:
    made = ledger(a=JobKind.TRAINING, b=JobKind.TRAINING)
    do(made, 0, Admit("a"), Admit("b"), Start("a"), Suspend("a"))
    assert made.current(JobEvicted(1, "a")) is None
    event = made.current(JobEvicted(1, "a", unresponsive=True))
    assert event is not None
    made.apply(event)
    assert made.visible_jobs() == ["b"]
    made.apply(JobResumed(2, "a"))
    assert (made.visible_jobs(), seen(made, "a").state) == (["a", "b"], JobState.SUSPENDED)
    do(made, 3, Resume("a"))
    assert seen(made, "a").state is JobState.RUNNING


def test_an_unresponsive_job_is_hidden_from_policies_until_it_reports_again() -> None:
    made = ledger(a=JobKind.TRAINING, b=JobKind.TRAINING)
    do(made, 0, Admit("a"), Admit("b"), Start("a"))
    made.apply(JobEvicted(1, "a", unresponsive=True))
    assert [job.name for job in look(made).jobs] == ["b"]
    made.apply(JobResumed(2, "a"))
    assert seen(made, "a").state is JobState.RUNNING


def test_a_slowdown_is_above_zero_even_when_an_iteration_took_no_time() -> None:
    made = ledger(a=JobKind.TRAINING, b=JobKind.TRAINING)
    do(made, 0, Admit("a"), Admit("b"), Start("a"), Start("b"))
    made.apply(IterationEnded(0, "a", 0))
    assert seen(made, "a").beside["b"] > 0


def test_iterations_reported_together_count_one_by_one_with_their_mean_time() -> None:
    made = ledger(a=JobKind.TRAINING)
    do(made, 0, Admit("a"), Start("a"))
    made.apply(IterationEnded(8 * SECOND, "a", 8 * SECOND, (), 4))
    after = seen(made, "a")
    assert (after.iterations_done, after.recent_ns, after.service_ns) == (4, 2 * SECOND, 4 * SECOND)
    assert after.busy_ns == 8 * SECOND


def test_the_room_of_an_evicted_job_is_not_given_away_while_it_fits_beside_the_others() -> None:
    weight = Tensor(bytes=40, born=-1, died=1, kind=Kind.PARAMETER)
    trace = make_trace([Op(seconds=1.0)], [weight])
    made = Ledger([Job(name=name, trace=trace) for name in "abc"], budget_bytes=100)
    for name in "abc":
        made.apply(JobArrived(0, name))
    do(made, 0, Admit("a"), Admit("b"))
    made.apply(JobEvicted(1, "b"))
    assert made.refusal(Admit("c"), 2) == "it would need 20 B more than the budget"
    made.apply(BudgetChanged(3, 70))  # the evicted job does not fit any more
    do(made, 4, Suspend("a"))
    assert made.refusal(Resume("a"), 5) is not None  # it is the evicted job's turn
    made.apply(BudgetChanged(7, 100))
    assert made.refusal(Resume("a"), 8) is None


def serving_ledger(**facts: Any) -> Ledger:
    """One server, whose iterations take a second alone and serve two samples, within two seconds."""
    trace = make_trace([Op(seconds=1.0)], batch=2)
    given = {"kind": JobKind.INFERENCE, "deadline_seconds": 2.0, **facts}
    made = Ledger([Job(name="serve", trace=trace, **given)], budget_bytes=100)
    made.apply(JobArrived(0, "serve"))
    do(made, 0, Admit("serve"))
    return made


def test_the_reserve_follows_the_answers_of_a_server_that_says_when_it_answers() -> None:
    made = serving_ledger()
    before = made.account("serve").reserve
    made.apply(RequestArrived(0, "serve", arrived_ns=0, tracked=True))
    do(made, 0, Start("serve"))
    made.apply(IterationEnded(SECOND, "serve", SECOND, arrivals_ns=(0,)))
    assert made.account("serve").reserve == before
    made.apply(RequestAnswered(3 * SECOND, "serve", 0, 3 * SECOND))
    assert made.account("serve").reserve > before


def test_an_answer_is_to_come_from_the_end_of_the_iteration_until_the_program_says_so() -> None:
    made = serving_ledger()
    for arrived_ns in (0, 1):
        made.apply(RequestArrived(1, "serve", arrived_ns=arrived_ns, tracked=True))
    do(made, 1, Start("serve"))
    made.apply(RequestAnswered(SECOND, "serve", 1, SECOND))  # its message was faster than that of the iteration
    assert job_view(made).answering == ()
    made.apply(IterationEnded(SECOND, "serve", SECOND, arrivals_ns=(0, 1)))
    assert job_view(made).answering == (0,)
    made.apply(RequestAnswered(SECOND, "serve", 0, SECOND))
    assert job_view(made).answering == ()


def test_the_reserve_follows_the_iterations_of_a_server_that_does_not() -> None:
    made = serving_ledger()
    before = made.account("serve").reserve
    made.apply(RequestArrived(0, "serve"))
    do(made, 0, Start("serve"))
    made.apply(IterationEnded(SECOND, "serve", SECOND))
    assert made.account("serve").reserve < before


def test_what_a_request_will_take_is_known_from_the_sizes_of_those_before_it() -> None:
    made = serving_ledger()
    assert job_view(made).demand_ns == SECOND
    for _ in range(3):
        made.apply(RequestArrived(0, "serve"))
        do(made, 0, Start("serve"))
        made.apply(IterationEnded(SECOND, "serve", SECOND, work=0.25))
    assert job_view(made).demand_ns == SECOND // 4


def test_a_latency_critical_server_without_a_deadline_has_the_time_of_two_requests() -> None:
    assert job_view(serving_ledger(deadline_seconds=None, latency_critical=True)).deadline_ns == 2 * SECOND
    assert job_view(serving_ledger(deadline_seconds=None)).deadline_ns is None


def job_view(made: Ledger) -> JobView:
    return made.view(Woken(SECOND), {"serve": Observation(0, 0)}).jobs[0]
