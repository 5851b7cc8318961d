from typing import Any

from neaptide.core.control.actions import MoveLane, SizeLane
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.parts.request_memory import keep_ready
from views import job, tide

TRAINS = job("train", tide(60, persistent=10))


def server(name: str = "serve", **facts: Any) -> JobView:
    return job(name, tide(20, persistent=5), kind=JobKind.INFERENCE, deadline_ns=100, **facts)


def test_what_requests_need_is_kept_ready_for_them() -> None:
    assert keep_ready([server(), TRAINS], 95, {}) == [SizeLane(0, 20), MoveLane("serve", 0)]
    assert keep_ready([server(lane=0), TRAINS], 95, {0: 20}) == []
    both = [server("one"), server("two"), TRAINS]
    assert keep_ready(both, 120, {}) == [SizeLane(0, 40), MoveLane("one", 0), MoveLane("two", 0)]


def test_nothing_is_kept_where_another_job_could_not_run_then() -> None:
    assert keep_ready([server(), TRAINS], 94, {}) == []
    assert keep_ready([server(lane=0), TRAINS], 94, {0: 20}) == [SizeLane(0, 0), MoveLane("serve", None)]


def test_nothing_is_kept_without_servers_or_without_others() -> None:
    assert keep_ready([TRAINS], 95, {}) == []
    assert keep_ready([server()], 95, {}) == []
    assert keep_ready([TRAINS], 95, {0: 20}) == [SizeLane(0, 0)]


def test_a_job_inside_an_iteration_changes_lanes_at_its_end() -> None:
    assert keep_ready([server(state=JobState.RUNNING), TRAINS], 95, {0: 20}) == []
