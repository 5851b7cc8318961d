"""Budgets that change under real jobs: every job ends with the numbers of a run alone, and the budget is kept."""

from __future__ import annotations

import os
import random
import subprocess
import time

import pytest

from daemons import MIB, until
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import Done, SetBudget
from real_jobs import RealDaemon, StartDaemon, alone, go_on, until_it_pauses

CHANGES = int(os.environ.get("NEAPTIDE_TEST_BUDGETS", "0"))  # of the campaign
IMAGES = ("resnet18", "64", "40")
TEXT = ("gpt2", "16", "40")
SPEECH = ("speech", "8", "40")


def set_budget(daemon: RealDaemon, budget_bytes: int) -> None:
    assert isinstance(ask(daemon.paths, SetBudget(budget_bytes)), Done)


def until_it_is_kept(daemon: RealDaemon, budget_bytes: int) -> None:
    until(lambda: daemon.board.snapshot().used_bytes <= budget_bytes, "what is leased to fit the budget")


@pytest.mark.parametrize("spare", [3, 6])
def test_a_job_alone_ends_with_the_same_numbers_in_a_budget_that_falls_to_what_it_was_measured_to_need(
    spare: int, start: StartDaemon
) -> None:
    daemon = start("neaptide", 2 * alone(IMAGES).peak_bytes)
    job = daemon.begin("job", IMAGES, pauses=True)
    until_it_pauses(job)
    until(lambda: daemon.job("job").needs_bytes > 0, "it to be measured")
    set_budget(daemon, daemon.job("job").needs_bytes + spare * MIB)
    go_on(job)
    daemon.ends_as_alone(job, IMAGES)
    daemon.check_memory()


def test_a_job_alone_ends_with_the_same_numbers_while_the_budget_goes_up_and_far_down(start: StartDaemon) -> None:
    daemon = start("neaptide", 400 * MIB)
    job = daemon.begin("job", IMAGES, pauses=True)
    until_it_pauses(job)
    go_on(job)
    for _ in range(2):
        set_budget(daemon, 4 * MIB)
        until_it_is_kept(daemon, 4 * MIB)
        assert job.poll() is None
        set_budget(daemon, 400 * MIB)
        until(lambda: daemon.board.snapshot().used_bytes > 4 * MIB or job.poll() is not None, "it to return")
    daemon.ends_as_alone(job, IMAGES)
    daemon.check_memory()


@pytest.mark.skipif(not CHANGES, reason="a campaign: NEAPTIDE_TEST_BUDGETS says how many changes")
def test_jobs_end_right_however_often_the_budget_changes(start: StartDaemon) -> None:
    programs = (IMAGES, TEXT, SPEECH)
    needs = [alone(each).peak_bytes for each in programs]
    daemon = start("neaptide", sum(needs))
    running: dict[tuple[str, ...], subprocess.Popen[str]] = {}
    chance = random.Random(CHANGES)
    for _ in range(CHANGES):
        for each in programs:
            if each in running and running[each].poll() is not None:
                daemon.ends_as_alone(running.pop(each), each)
            if each not in running:
                running[each] = daemon.begin(each[0], each)
        budget_bytes = chance.randint(max(needs), sum(needs))
        set_budget(daemon, budget_bytes)
        if chance.random() < 0.3:
            until_it_is_kept(daemon, budget_bytes)
        time.sleep(chance.uniform(0, 0.5))  # so that the changes come at any moment of the jobs
    for each, process in running.items():
        daemon.ends_as_alone(process, each)
    daemon.check_memory()
