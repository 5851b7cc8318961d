"""Real trainings side by side under a budget that binds: the same numbers as alone, and never more than the budget."""

from __future__ import annotations

import pytest

from real_jobs import StartDaemon, budget_for

pytestmark = pytest.mark.xdist_group("sharing")

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
    assert [(job.state, job.reason) for job in daemon.status().jobs] == [("done", "")] * 2
    daemon.check_memory()
