from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.job import JobKind, JobState
from neaptide.policies.temporal import Fifo, Temporal
from views import job, tide, view

QUEUED, READY, RUNNING = JobState.QUEUED, JobState.READY, JobState.RUNNING


def test_a_job_that_arrives_at_an_idle_device_is_admitted_and_started() -> None:
    assert Temporal().decide(view(job("a", state=QUEUED))) == [Admit("a"), Start("a")]


def test_one_iteration_runs_at_a_time() -> None:
    assert Temporal().decide(view(job("a", state=RUNNING), job("b", state=READY))) == []


def test_the_job_whose_last_iteration_ended_first_is_next() -> None:
    seen = view(job("a", since_ns=30), job("b", since_ns=10), job("c", since_ns=20))
    assert Temporal().decide(seen) == [Start("b")]


def test_equal_jobs_go_in_the_order_of_arrival() -> None:
    assert Temporal().decide(view(job("b"), job("a"))) == [Start("b")]


def test_an_inference_job_without_requests_is_skipped() -> None:
    seen = view(job("serve", kind=JobKind.INFERENCE), job("train", since_ns=5))
    assert Temporal().decide(seen) == [Start("train")]


def test_jobs_are_admitted_while_persistent_bytes_and_the_largest_ephemeral_peak_fit() -> None:
    seen = view(
        job("a", tide(60, persistent=20), state=QUEUED),
        job("b", tide(10, persistent=20), state=QUEUED),
        job("c", tide(10, persistent=1), state=QUEUED),
        budget=100,
    )
    assert Temporal().decide(seen) == [Admit("a"), Admit("b"), Start("a")]


def test_no_job_overtakes_one_that_does_not_fit_yet_unless_that_one_never_fits() -> None:
    seen = view(
        job("runs", tide(50, persistent=20), state=RUNNING),
        job("never", tide(101), state=QUEUED),
        job("later", tide(50, persistent=40), state=QUEUED),
        job("small", tide(1), state=QUEUED),
    )
    assert Temporal().decide(seen) == []
    assert Temporal().decide(view(*[each for each in seen.jobs if each.name != "later"])) == [Admit("small")]


def test_fifo_gives_the_device_to_one_job_until_its_end() -> None:
    first = job("a", state=QUEUED)
    assert Fifo().decide(view(first, job("b", state=QUEUED))) == [Admit("a"), Start("a")]
    assert Fifo().decide(view(job("a", state=READY), job("b", state=QUEUED))) == [Start("a")]
    assert Fifo().decide(view(job("a", state=RUNNING), job("b", state=QUEUED))) == []
    assert Fifo().decide(view(job("b", state=QUEUED))) == [Admit("b"), Start("b")]


def test_fifo_skips_a_job_larger_than_the_budget() -> None:
    assert Fifo().decide(view(job("never", tide(101), state=QUEUED))) == []
    seen = view(job("never", tide(101), state=QUEUED), job("b", state=QUEUED))
    assert Fifo().decide(seen) == [Admit("b"), Start("b")]
