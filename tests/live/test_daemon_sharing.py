"""Jobs under a daemon: they share the device under the budget, whatever the policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemons import MIB, DaemonThread, until
from fake_job import MEASURED
from neaptide.core.control import events as ev
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.asking import ask
from neaptide.policies import POLICIES
from neaptide.policies.files import find_policy
from neaptide.reporting.logs.log_file import read_runs
from neaptide.reporting.logs.replay import replay
from simple_policies import SendsIdleAway

LIVE_POLICIES = sorted(set(POLICIES) - {"spatial-paged"})


@pytest.mark.parametrize("policy", LIVE_POLICIES)
def test_three_jobs_that_do_not_fit_together_all_end_under_every_policy(
    policy: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    daemon = DaemonThread(tmp_path / "run", policy)
    try:
        jobs = [daemon.run(name=name, iterations=10, tell_iterations=True) for name in "abc"]
        for job in jobs:
            job.join()
        until(lambda: all(daemon.has(name, "done") for name in "abc"), "all jobs to be done")
        status = daemon.status()
        assert [job.done for job in jobs] == [10, 10, 10]
        assert status.high_water_bytes <= status.budget_bytes
        assert status.used_bytes == 0
    finally:
        daemon.stop()
    assert "fault" not in capfd.readouterr().err
    assert replay(daemon.paths.events, daemon.paths.traces, find_policy(policy)) == []


def test_a_serving_job_that_is_suspended_between_requests_is_resumed_for_the_next_one(tmp_path: Path) -> None:
    daemon = DaemonThread(tmp_path / "run", SendsIdleAway())
    try:
        serving = daemon.run(name="serving", iterations=10, kind="inference", pause_at=5)
        until(lambda: serving.evictions > 0, "it to be sent away while it has nothing to do")
        serving.go_on.set()
        serving.join()
        until(lambda: daemon.has("serving", "done"), "it to be done")
        assert serving.done == 10
    finally:
        daemon.stop()
    entries = read_runs(daemon.paths.events)[-1].entries
    assert 0 < sum(isinstance(entry, ev.RequestArrived) for entry in entries) <= 11  # the last may be presumed


def test_nobody_stands_still_while_a_new_job_is_measured(daemon: DaemonThread) -> None:
    first = daemon.run(name="first", iterations=100_000)
    until(lambda: first.done > 5, "the first to run")
    second = daemon.run(name="second", iterations=1, seconds=0.2)
    second.join()
    first.stop.set()
    measured_from, measured_to = second.measured
    inside = [span for span in first.ran if measured_from < span[0] and span[1] < measured_to]
    assert len(inside) > 3


def test_a_job_is_evicted_while_a_new_job_that_does_not_fit_beside_it_is_measured(
    daemon: DaemonThread,
) -> None:
    first = daemon.run(name="first", iterations=100_000, persistent=60 * MIB, ephemeral=20 * MIB)
    until(lambda: first.done > 2, "the first to run")
    second = daemon.run(name="second", iterations=5, persistent=40 * MIB, ephemeral=40 * MIB)
    second.join()
    assert second.done == 5
    assert first.evictions >= 1
    before = first.done
    until(lambda: first.done > before + 3, "the first to go on")


def test_a_job_larger_than_the_budget_is_refused_and_the_other_job_ends(daemon: DaemonThread) -> None:
    first = daemon.run(name="first", iterations=50)
    # It says that it needs more than it took when it was measured: the board would not have let it.
    large = daemon.run(name="large", iterations=1, persistent=90 * MIB, ephemeral=8 * MIB, claims=50 * MIB)
    large.join()
    assert large.refused == (
        "job large needs 148 MiB and the budget is 100 MiB; raise it (neaptide budget) or make the job smaller"
    )
    first.join()
    assert first.done == 50
    assert daemon.job("large").state == "failed"


def test_an_inference_job_is_started_by_its_requests(tmp_path: Path) -> None:
    daemon = DaemonThread(tmp_path / "run", "herald")
    try:
        serving = daemon.run(name="serving", iterations=20, kind="inference", deadline_seconds=0.05)
        training = daemon.run(name="training", iterations=20)
        serving.join()
        training.join()
        assert (serving.done, training.done) == (20, 20)
    finally:
        daemon.stop()


def test_a_job_alone_has_an_open_permit_and_loses_it_when_another_comes(daemon: DaemonThread) -> None:
    first = daemon.run(name="first", iterations=10_000)
    slot = first.slot
    until(lambda: first.board.progress(slot).permit == 2**32 - 1 and first.done > 3, "the permit to be open")
    second = daemon.run(name="second", iterations=10_000)
    until(lambda: second.done > 3, "the second to run")
    assert first.board.progress(slot).permit < 2**32 - 1
    second.stop.set()
    until(lambda: first.board.progress(slot).permit == 2**32 - 1, "the permit to be open again")


def test_two_jobs_of_one_name_are_told_apart(daemon: DaemonThread) -> None:
    for _ in range(2):  # they run on: a name is free again when its job has ended
        daemon.run(name="twin", iterations=10_000)
    until(lambda: {job.name for job in daemon.status().jobs} == {"twin", "twin-2"}, "both to be known")


def test_the_budget_can_be_changed_while_jobs_run(daemon: DaemonThread) -> None:
    jobs = [daemon.run(name=name, iterations=10_000) for name in "ab"]
    until(lambda: all(job.done > 3 for job in jobs), "both to run")
    assert ask(daemon.paths, say.SetBudget(60 * MIB)) == say.Done()
    until(lambda: daemon.status().used_bytes <= 60 * MIB, "the jobs to come down to it")
    before = [job.done for job in jobs]
    until(lambda: any(job.done > done + 5 for job, done in zip(jobs, before, strict=True)), "somebody to go on")
    assert daemon.status().used_bytes <= 60 * MIB
    assert ask(daemon.paths, say.SetBudget(100 * MIB)) == say.Done()
    before = [job.done for job in jobs]
    until(lambda: all(job.done > done + 5 for job, done in zip(jobs, before, strict=True)), "both to go on")
    too_small = ask(daemon.paths, say.SetBudget(1024))
    assert too_small == say.Problem("a budget of 1.00 KiB is too small; at least 2.00 MiB is needed")


def test_a_job_waits_for_a_budget_that_rose_and_fell_while_it_asked_for_nothing(daemon: DaemonThread) -> None:
    job = daemon.run(name="job", iterations=6, pause_at=3, surprise=80 * MIB, surprise_from=3)
    until(lambda: job.done == 3, "it to pause")
    for budget_bytes in (200 * MIB, 100 * MIB):
        assert ask(daemon.paths, say.SetBudget(budget_bytes)) == say.Done()
    job.go_on.set()
    until(lambda: job.ended or job.board.progress(job.slot).wanted_bytes > 0, "it to wait for memory")
    assert not job.ended
    assert ask(daemon.paths, say.SetBudget(200 * MIB)) == say.Done()
    job.join()
    assert job.done == 6


def test_every_iteration_of_a_job_that_is_alone_is_counted_in_few_events(daemon: DaemonThread) -> None:
    daemon.run(name="alone", iterations=60).join()
    until(lambda: daemon.has("alone", "done"), "it to be done")
    until(lambda: b"job_ended" in daemon.paths.events.read_bytes(), "the log to be written")
    entries = read_runs(daemon.paths.events)[-1].entries
    ends = [entry for entry in entries if isinstance(entry, ev.IterationEnded)]
    assert sum(end.iterations for end in ends) == 60
    assert daemon.job("alone").iterations_done == MEASURED + 60
    assert len(ends) < 30
    assert not replay(daemon.paths.events, daemon.paths.folder / "traces", find_policy("neaptide"))
