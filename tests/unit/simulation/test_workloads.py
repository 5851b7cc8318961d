"""Arrivals, requests and the 100-job trace."""

from __future__ import annotations

import statistics
from itertools import islice, pairwise, takewhile

import pytest
from benchmarks._salus_jobs import SALUS_WORKLOADS, salus_jobs

from neaptide.simulation.salus_workloads import SECONDS, public_workloads
from neaptide.simulation.workloads import JobWanted, parse_job_list, poisson, regular_requests

SECOND = 1_000_000_000


def test_random_times_follow_their_rate_and_their_seed() -> None:
    times = list(islice(poisson(20.0, seed=3), 5000))
    assert times == list(islice(poisson(20.0, seed=3), 5000)) != list(islice(poisson(20.0, seed=4), 5000))
    gaps = [after - before for before, after in pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(SECOND / 20, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(SECOND / 20, rel=0.1)  # as an exponential distribution has it


def test_regular_requests_come_within_their_time() -> None:
    times = list(takewhile(lambda at_ns: at_ns < 61 * SECOND, poisson(10.0, seed=1, start_ns=SECOND)))
    assert times == sorted(times)
    assert times[0] >= SECOND
    assert len(times) == pytest.approx(600, rel=0.15)
    assert regular_requests(4.0, 1.0, start_ns=7) == (7, 250_000_007, 500_000_007, 750_000_007)


def test_a_rate_must_be_positive_and_finite() -> None:
    with pytest.raises(ValueError, match="a rate must be positive and finite, not 0"):
        regular_requests(0, 1.0)
    with pytest.raises(ValueError, match="a rate must be positive and finite, not nan"):
        next(poisson(float("nan"), seed=0))


def test_the_salus_trace_is_many_short_jobs_and_a_few_long_ones() -> None:
    jobs = salus_jobs(seed=0)
    assert jobs == salus_jobs(seed=0) != salus_jobs(seed=1)
    assert len(jobs) == 100
    assert {(job.model, job.batch) for job in jobs} == set(SALUS_WORKLOADS)
    assert [job.arrives_ns for job in jobs] == sorted(job.arrives_ns for job in jobs)
    seconds = sorted(job.solo_seconds for job in jobs)
    assert sum(seconds) == pytest.approx(18_000, rel=0.02)  # about 300 minutes, as published
    assert statistics.median(seconds) < statistics.mean(seconds) / 2
    assert sum(seconds[-10:]) > 0.45 * sum(seconds)


def test_served_first_come_first_served_salus_jobs_wait_as_long_as_published() -> None:
    """167.6 of 303.4 minutes, one job at a time; in most random orders of the durations the wait would be shorter."""
    for seed in range(20):
        free = waited = 0.0
        for job in salus_jobs(seed):
            starts = max(free, job.arrives_ns / 1e9)
            waited += starts - job.arrives_ns / 1e9
            free = starts + job.solo_seconds
        assert waited / 100 / free == pytest.approx(167.6 / 303.4, abs=0.02)


def test_jobs_are_read_from_csv_in_the_order_of_their_arrival() -> None:
    text = "batch, model,solo_seconds,arrives_seconds\n25,vgg16,60,1.5\n\n50,alexnet,10.5,0\n"
    assert parse_job_list(text) == (
        JobWanted("alexnet", 50, 0, 10.5),
        JobWanted("vgg16", 25, 1_500_000_000, 60.0),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the columns must be model, batch, arrives_seconds, solo_seconds, not none"),
        ("model,batch\n", "line 1: the columns must be .* not model, batch"),
        ("model,batch,arrives_seconds,solo_seconds\n", "line 2: there is no job"),
        ("model,batch,arrives_seconds,solo_seconds\na,1,0\n", "line 2: 3 fields where 4 are needed"),
        ("model,batch,arrives_seconds,solo_seconds\na,1,0,1\nb,x,0,1\n", "line 3: batch must be a number, not 'x'"),
        ("model,batch,arrives_seconds,solo_seconds\na,1.5,0,1\n", "line 2: batch must be a whole number from 1 on"),
        ("model,batch,arrives_seconds,solo_seconds\na,1,-1,1\n", "line 2: arrives_seconds must not be negative"),
        ("model,batch,arrives_seconds,solo_seconds\na,1,0,inf\n", "line 2: solo_seconds must be a number, not 'inf'"),
        ("model,batch,arrives_seconds,solo_seconds\na,1,0,0\n", "line 2: solo_seconds must be positive"),
        ("model,batch,arrives_seconds,solo_seconds\n,1,0,1\n", "line 2: the model has no name"),
    ],
)
def test_bad_csv_is_refused_with_the_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        parse_job_list(text)


def test_a_trace_needs_a_job() -> None:
    with pytest.raises(ValueError, match="at least one job, not 0"):
        salus_jobs(0, count=0)


def test_the_public_workloads_of_salus_are_33_networks_and_batches_in_three_lengths() -> None:
    jobs = public_workloads(seed=0)
    assert sorted(map(repr, jobs)) == sorted(map(repr, public_workloads(seed=1)))
    assert jobs != public_workloads(seed=1)
    assert len(jobs) == 99
    assert {(job.model, job.batch) for job in jobs} <= set(SALUS_WORKLOADS)
    assert all(short < middle < long for short, middle, long in SECONDS.values())
    assert {job.arrives_ns for job in jobs} == {0}
