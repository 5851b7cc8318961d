from typing import Any

from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.parts.slack import NEVER, Slack, ops_of_others_ns
from views import job, tide

SLACK = Slack(spare=0.1, lead=1.5)
SERVES = tide(1, step_ns=100, batch=4)  # 100 ns alone


def serving(**facts: Any) -> JobView:
    return job("serve", SERVES, kind=JobKind.INFERENCE, deadline_ns=1000, **facts)


def test_a_full_batch_is_served_at_once() -> None:
    assert SLACK.serve_at_ns(serving(requests=(50, 60, 70, 80))) == 0


def test_a_batch_that_is_not_full_is_served_as_late_as_is_safe() -> None:
    assert SLACK.serve_at_ns(serving(requests=(50, 60))) == 50 + 900 - 150


def test_a_batch_that_took_long_the_last_time_is_served_earlier() -> None:
    assert SLACK.serve_at_ns(serving(requests=(50,), recent_ns=200)) == 50 + 900 - 300


def test_without_samples_there_is_nothing_to_serve() -> None:
    assert SLACK.serve_at_ns(serving()) == NEVER


def test_ops_of_jobs_that_run_at_once_last_as_long_as_their_sum() -> None:
    one = job("one", tide(1, longest_ns=30), state=JobState.RUNNING)
    other = job("other", tide(1, longest_ns=20), state=JobState.RUNNING)
    ready = job("ready", tide(1, longest_ns=40))
    assert ops_of_others_ns([]) == 0
    assert ops_of_others_ns([one, other]) == 50
    assert ops_of_others_ns([one, ready]) == 40  # which may be the next to run
