"""Real trainings side by side under a budget that binds: the same numbers as alone, and never more than the budget."""

from __future__ import annotations

import pytest

from neaptide.core.control.events import JobEnded
from neaptide.reporting.logs.log_file import read_runs
from real_jobs import StartDaemon, budget_for

POLICIES = ["antman", "gandiva", "herald", "neaptide", "salus-fair", "salus-pack", "salus-srtf", "temporal"]
POLICIES += ["ticktock", "zico"]
IMAGES = ("resnet18", "64", "12")
TEXT = ("gpt2", "8", "12")


@pytest.mark.parametrize("policy", POLICIES)
def test_two_trainings_end_with_the_numbers_of_a_run_alone(policy: str, start: StartDaemon) -> None:
    daemon = start(policy, budget_for(IMAGES, TEXT))
    jobs = {each: daemon.begin(each[0], each) for each in (IMAGES, TEXT)}
    for arguments, process in jobs.items():
        daemon.ends_as_alone(process, arguments)
    status = daemon.status()
    assert [(job.state, job.reason) for job in status.jobs] == [("done", "")] * 2
    (run,) = read_runs(daemon.paths.events)
    logged = {entry.job: entry.waited_ns for entry in run.entries if isinstance(entry, JobEnded)}
    assert logged == {job.name: pytest.approx(job.waiting_seconds * 1e9) for job in status.jobs}
    assert sum(logged.values()) > 0
    daemon.check_memory()
