"""The metrics of a run as docs/metrics.md defines them, by example."""

from __future__ import annotations

import pytest

from builders import training_trace
from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.controller import Decided, Entry, Refused
from neaptide.core.control.events import (
    CallWithdrawn,
    IterationEnded,
    JobArrived,
    JobEnded,
    JobEvicted,
    JobFailed,
    JobLeft,
    JobStalled,
    RequestAnswered,
    RequestArrived,
    RequestCalled,
    Woken,
)
from neaptide.core.control.job import Job, JobKind
from neaptide.core.control.log_format import JobFacts, facts_of
from neaptide.core.traces.profile import Profile
from neaptide.reporting.logs.metrics import Metrics, jain, metrics_of, percentile


def training(name: str, iterations: int | None = 2, solo_ns: int = 10) -> JobFacts:
    return JobFacts(
        name=name,
        kind=JobKind.TRAINING,
        iterations=iterations,
        solo_ns=solo_ns,
        batch=4,
        persistent_bytes=1,
        peak_bytes=2,
    )


def inference(name: str, deadline_ns: int | None = 20, batch: int = 2) -> JobFacts:
    return JobFacts(
        name=name,
        kind=JobKind.INFERENCE,
        iterations=None,
        solo_ns=10,
        batch=batch,
        persistent_bytes=1,
        peak_bytes=2,
        deadline_ns=deadline_ns,
    )


def in_turn() -> Metrics:
    """Two jobs with two iterations of 10 ns each, one iteration at a time; the second job arrives at 5."""
    entries: list[Entry] = [JobArrived(0, "a"), Decided(0, Start("a")), JobArrived(5, "b")]
    for end, name, following in ((10, "a", "b"), (20, "b", "a"), (30, "a", "b"), (40, "b", "")):
        entries.append(IterationEnded(end, name, 10))
        if end >= 30:
            entries.append(JobEnded(end, name))
        if following:
            entries.append(Decided(end, Start(following)))
    return metrics_of(entries, [training("a"), training("b")], 40)


def test_the_throughput_of_jobs_that_take_turns_is_one() -> None:
    assert in_turn().throughput == 1.0


def test_the_completion_time_of_a_job_counts_from_its_arrival() -> None:
    metrics = in_turn()
    assert metrics.completions_ns == [30, 35]
    assert metrics.completion_ns == 32.5
    assert metrics.completion_p95_ns == 35
    assert metrics.makespan_ns == 40


def test_the_makespan_begins_with_the_first_arrival() -> None:
    entries: list[Entry] = [JobArrived(100, "a"), IterationEnded(130, "a", 10), JobEnded(130, "a")]
    assert metrics_of(entries, [training("a", 1)], 130).makespan_ns == 30


def test_a_job_queues_until_its_first_iteration_starts() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), Decided(3, Admit("a")), Decided(7, Start("a")), Decided(9, Start("a"))]
    assert metrics_of(entries, [training("a")], 40).queueing_ns == 7
    assert in_turn().queueing_ns == 2.5


def test_a_job_that_never_starts_queues_until_the_end() -> None:
    assert metrics_of([JobArrived(10, "a")], [training("a")], 40).queueing_ns == 30


def test_slowdown_is_the_time_present_over_the_time_alone() -> None:
    metrics = in_turn()
    assert [record.slowdown for record in metrics.jobs] == [30 / 20, 35 / 20]
    assert metrics.fairness == jain([1.5, 1.75])


def test_a_starving_job_counts_in_slowdown_and_fairness() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), JobArrived(0, "b")]
    entries += [IterationEnded(10 * i, "a", 10) for i in range(1, 101)]
    metrics = metrics_of(entries, [training("a", None), training("b", None)], 1000)
    assert [record.slowdown for record in metrics.jobs] == [1.0, 100.0]
    assert metrics.fairness == pytest.approx(0.51, abs=0.01)


def test_the_throughput_of_two_undisturbed_jobs_is_two() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), JobArrived(0, "b")]
    entries += [IterationEnded(10, "a", 10), IterationEnded(10, "b", 10)]
    assert metrics_of(entries, [training("a", None), training("b", None)], 10).throughput == 2.0


def test_an_endless_job_has_no_completion_time_and_the_makespan_ignores_it() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), JobArrived(0, "b"), IterationEnded(20, "a", 20), JobEnded(20, "a")]
    metrics = metrics_of(entries, [training("a", 1), training("b", None)], 25)
    assert metrics.makespan_ns == 20
    assert metrics.finished == (1, 1)
    assert metrics.completions_ns == [20]


def test_there_is_no_makespan_if_a_finite_job_does_not_end() -> None:
    metrics = metrics_of([JobArrived(0, "a"), IterationEnded(20, "a", 20)], [training("a"), training("b")], 25)
    assert metrics.makespan_ns is None
    assert metrics.finished == (0, 2)
    assert metrics.completion_ns is None


def test_a_failed_job_is_not_done() -> None:
    metrics = metrics_of([JobArrived(0, "a"), JobFailed(5, "a", "out of memory")], [training("a")], 5)
    assert metrics.finished == (0, 1)
    assert metrics.makespan_ns is None
    assert metrics.jobs[0].failure == "out of memory"


def test_a_job_that_left_and_joined_again_is_one_job_from_its_first_arrival_on() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), Decided(0, Start("a")), IterationEnded(10, "a", 10), JobLeft(12, "a")]
    entries += [JobArrived(20, "a"), Decided(20, Start("a")), IterationEnded(30, "a", 10), JobEnded(31, "a")]
    metrics = metrics_of(entries, [training("a")], 40)
    assert metrics.finished == (1, 1)
    assert (metrics.makespan_ns, metrics.jobs[0].iterations, metrics.jobs[0].failure) == (31, 2, "")


def test_a_request_of_several_samples_counts_as_so_many() -> None:
    metrics = metrics_of([JobArrived(0, "s"), RequestArrived(0, "s", 3)], [inference("s")], 5)
    assert metrics.jobs[0].requests == 3


def test_a_tracked_request_is_answered_when_the_program_says_so_and_not_by_an_iteration() -> None:
    entries: list[Entry] = [
        JobArrived(0, "s"),
        RequestArrived(5, "s", arrived_ns=2, expected=True, tracked=True),
        RequestCalled(8, "s", 2),
        IterationEnded(15, "s", 6, (2,)),
        RequestCalled(16, "s", 2),  # it calls its model once more
        IterationEnded(20, "s", 4, (2,)),
    ]
    before, answer = metrics_of(entries, [inference("s", 20)], 22), RequestAnswered(23, "s", 2, 21)
    assert (before.jobs[0].requests, before.jobs[0].latencies_ns, before.jobs[0].due) == (1, [], 0)
    after = metrics_of([*entries, answer], [inference("s", 20)], 30)
    assert (after.jobs[0].latencies_ns, after.jobs[0].in_time, after.attainment) == ([21], 0, 0.0)
    assert metrics_of([*entries, answer], [inference("s", 21)], 30).attainment == 1.0


def test_a_call_that_was_withdrawn_was_no_request() -> None:
    entries: list[Entry] = [JobArrived(0, "s"), RequestArrived(1, "s", arrived_ns=1, tracked=True)]
    entries += [RequestArrived(2, "s"), CallWithdrawn(3, "s")]
    assert metrics_of(entries, [inference("s", 5)], 20).jobs[0].requests == 1


def serving(deadline_ns: int | None, until: int) -> Metrics:
    """Four requests: two are answered after 15 and 10 ns, one after 25 ns, one never."""
    entries: list[Entry] = [JobArrived(0, "s"), *(RequestArrived(at, "s") for at in (0, 5, 10, 30))]
    entries += [IterationEnded(15, "s", 10, (0, 5)), IterationEnded(35, "s", 10, (10,))]
    return metrics_of(entries, [inference("s", deadline_ns)], until)


def test_attainment_is_the_share_of_due_requests_that_were_answered_in_time() -> None:
    assert serving(20, until=40).attainment == 2 / 3  # the last may still be answered in time
    assert serving(20, until=51).attainment == 2 / 4  # the last is late


def test_a_request_answered_at_its_deadline_is_in_time() -> None:
    assert serving(25, until=40).attainment == 1.0


def test_a_job_without_an_slo_has_latency_and_no_attainment() -> None:
    metrics = serving(None, until=40)
    assert metrics.attainment is None
    assert metrics.latency_p99_ns == 25


def test_an_iteration_counts_by_its_size() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), IterationEnded(20, "a", 20), IterationEnded(25, "a", 5, work=0.5)]
    [record] = metrics_of(entries, [training("a")], 30).jobs
    assert (record.iterations, record.work_ns, record.against_alone) == (2, 15, 0.5)


def test_a_half_full_batch_is_half_the_work() -> None:
    assert serving(20, until=40).jobs[0].work_ns == 15


def test_an_inference_job_has_no_completion_queueing_or_fairness() -> None:
    metrics = serving(20, until=40)
    assert (metrics.completion_ns, metrics.queueing_ns, metrics.fairness) == (None, None, None)


def test_stalls_evictions_and_refusals_are_counted() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), JobStalled(1, "a"), JobStalled(2, "a"), JobEvicted(3, "a"), Woken(4)]
    entries.append(Refused(5, Start("a"), "it is not ready"))
    metrics = metrics_of(entries, [training("a")], 5)
    assert (metrics.stalls, metrics.evictions, metrics.refused) == (2, 1, 1)


def test_a_job_that_does_not_respond_is_not_counted_as_evicted() -> None:
    entries: list[Entry] = [JobArrived(0, "a"), JobEvicted(1, "a", unresponsive=True)]
    assert metrics_of(entries, [training("a")], 1).evictions == 0


def test_a_job_that_has_not_arrived_changes_no_metric() -> None:
    metrics = metrics_of([JobArrived(5, "a"), IterationEnded(15, "a", 10)], [training("a"), training("b")], 15)
    assert metrics.throughput == 1.0
    assert metrics.queueing_ns == 10
    assert metrics.fairness is None


def test_the_facts_of_a_job_are_those_of_its_profile() -> None:
    trace = training_trace()
    job = Job(name="a", trace=trace, iterations=3)
    serving = Job(name="b", trace=trace, kind=JobKind.INFERENCE, deadline_seconds=1.6)
    first, second = facts_of([job, serving])
    assert (first.iterations, first.solo_ns, first.batch) == (3, Profile.of(trace).solo_ns, 4)
    assert (first.persistent_bytes, first.deadline_ns, second.deadline_ns) == (100, None, 1_600_000_000)
    assert first.peak_bytes == trace.peak_bytes


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([3], 95, 3), ([1, 2], 50, 1), (list(range(1, 101)), 95, 95), (list(range(20, 0, -1)), 95, 19), ([], 95, None)],
)
def test_a_percentile_is_a_value_that_occurred(values: list[int], percent: int, expected: int | None) -> None:
    assert percentile(values, percent) == expected


def test_jains_index_is_one_for_equal_values_and_one_nth_if_one_value_has_everything() -> None:
    assert jain([3.0, 3.0, 3.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
