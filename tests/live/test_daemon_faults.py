"""Jobs that are killed, stopped or hang, or take more than they say: no capacity is lost and the other jobs go on."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from daemons import MIB, DaemonProcess, DaemonThread, goes_on, kill, until, until_it_ran
from hangs import HANGS_SECONDS
from neaptide.core.rules import patience
from simple_policies import Everything

KILLS = int(os.environ.get("NEAPTIDE_TEST_KILLS", "12"))  # victims of the loop that kills, in pairs


def test_jobs_killed_at_any_moment_give_everything_back(daemon: DaemonThread) -> None:
    witness = daemon.run(name="witness", iterations=100_000)
    chance = random.Random(1)
    for number in range(KILLS // 2):
        victims = [daemon.spawn(name=f"victim-{number}-{i}", iterations=10_000) for i in range(2)]
        if number % 2:
            until_it_ran(victims[0], chance.randint(0, 20))
        else:
            until(lambda: len(daemon.status().jobs) > 1, "a victim to come")
        for victim in victims:
            kill(victim)
        goes_on(witness)
    until(lambda: daemon.status().used_bytes <= witness.spec.persistent + witness.spec.ephemeral, "all to be back")
    until(lambda: len([job for job in daemon.status().jobs if not job.reason]) == 1, "the victims to be gone")
    goes_on(witness)


@pytest.mark.parametrize("policy", ["neaptide", "temporal"])
def test_other_jobs_go_on_beside_a_stopped_job_which_goes_on_later(policy: str, tmp_path: Path) -> None:
    daemon = DaemonThread(tmp_path / "run", policy)
    try:
        others = [daemon.run(name=name, iterations=100_000) for name in ("x", "y")]
        stopped = daemon.spawn(name="stopped", iterations=200, seconds=0.02)
        until_it_ran(stopped, 3)
        stopped.send_signal(signal.SIGSTOP)
        until(lambda: daemon.has("stopped", "stopped"), "it to be noticed")
        for job in others:
            goes_on(job, 10)
        stopped.send_signal(signal.SIGCONT)
        until_it_ran(stopped, 50)
        assert not daemon.has("stopped", "stopped")
        for job in others:
            goes_on(job)
    finally:
        daemon.stop()


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_a_new_job_does_not_wait_for_a_job_stopped_inside_its_iteration(daemon: DaemonThread, beside: bool) -> None:
    others = [daemon.run(name="other", iterations=100_000)] if beside else []
    stopped = daemon.spawn(name="stopped", iterations=40, seconds=0.2)
    until_it_ran(stopped, 1)
    until(lambda: daemon.job("stopped").held_bytes > 10 * MIB, "it to be inside an iteration")
    stopped.send_signal(signal.SIGSTOP)
    newcomer = daemon.run(name="newcomer", iterations=10)
    newcomer.join()
    assert newcomer.done == 10
    for job in others:
        goes_on(job)
    stopped.send_signal(signal.SIGCONT)
    until_it_ran(stopped, 5)


INSIDE = {"persistent": 10 * MIB, "ephemeral": 48 * MIB, "seconds": 0.4}
BETWEEN = {"persistent": 46 * MIB, "ephemeral": 4 * MIB, "seconds": 0.004}


@pytest.mark.parametrize(("policy", "tide"), [("neaptide", INSIDE), ("temporal", INSIDE), ("neaptide", BETWEEN)])
def test_a_new_job_that_needs_the_memory_of_a_stopped_job_waits_and_the_others_go_on(
    policy: str, tide: dict[str, float], tmp_path: Path
) -> None:
    daemon = DaemonThread(tmp_path / "run", policy)
    other = daemon.run(name="other", iterations=100_000, ephemeral=20 * MIB)
    stopped = daemon.spawn(name="stopped", iterations=100_000, **tide)
    until_it_ran(stopped, 1)
    until(lambda: daemon.job("stopped").held_bytes >= 46 * MIB, "it to hold what the newcomer needs")
    stopped.send_signal(signal.SIGSTOP)
    newcomer = daemon.run(name="newcomer", iterations=5, ephemeral=50 * MIB)
    until(lambda: daemon.has("newcomer", "evicted"), "the newcomer to make way")
    goes_on(other, 20)
    assert newcomer.done == 0
    stopped.send_signal(signal.SIGCONT)
    newcomer.join()
    goes_on(other)
    until(lambda: daemon.job("stopped").iterations_done > 5, "it to go on, too")
    assert daemon.status().high_water_bytes <= 100 * MIB
    daemon.stop()


def test_a_job_stopped_while_it_is_measured_holds_nobody_up(daemon: DaemonThread) -> None:
    first = daemon.run(name="first", iterations=100_000)
    goes_on(first)
    newcomer = daemon.spawn(name="newcomer", iterations=20, seconds=1.0)
    until(lambda: daemon.has("newcomer", "measuring"), "it to be welcomed")
    newcomer.send_signal(signal.SIGSTOP)
    goes_on(first, 20)
    newcomer.kill()
    goes_on(first)


@pytest.mark.parametrize("policy", ["neaptide", "temporal"])
def test_the_daemon_takes_back_the_permit_of_a_job_that_begins_no_iteration(policy: str, tmp_path: Path) -> None:
    daemon = DaemonThread(tmp_path / "run", policy)
    try:
        slow = daemon.run(name="slow", iterations=40, pause_at=10)
        other = daemon.run(name="other", iterations=100_000)
        until(lambda: slow.done == 10 and daemon.has("slow", "stopped"), "the permit to be taken back")
        goes_on(other, 20)
        slow.go_on.set()
        slow.join()
        assert slow.done == 40
        goes_on(other)
    finally:
        daemon.stop()


@pytest.mark.parametrize("policy", ["neaptide", "temporal"])
def test_a_job_whose_permit_was_taken_back_goes_on_when_it_is_the_last_one(policy: str, tmp_path: Path) -> None:
    daemon = DaemonThread(tmp_path / "run", policy)
    try:
        slow = daemon.run(name="slow", iterations=40, pause_at=10)
        other = daemon.run(name="other", iterations=100_000)
        until(lambda: slow.done == 10 and daemon.has("slow", "stopped"), "the permit to be taken back")
        other.stop.set()
        other.join()
        time.sleep(0.3)  # by then the daemon has looked once more, and found nobody that shares the device
        slow.go_on.set()
        slow.join(HANGS_SECONDS)
        assert slow.done == 40
    finally:
        daemon.stop()


def test_the_youngest_job_is_evicted_for_a_while_when_iterations_need_more_than_was_measured(tmp_path: Path) -> None:
    daemon = DaemonThread(tmp_path / "run", Everything())
    jobs = [daemon.run(name=name, iterations=10, seconds=0.01, surprise=35 * MIB, pause_at=1) for name in "ab"]
    until(lambda: all(job.done == 1 for job in jobs), "both to be there")
    for job in jobs:
        job.go_on.set()
    for job in jobs:
        job.join()
    assert [job.done for job in jobs] == [10, 10]
    assert max(job.most for job in jobs) == 85 * MIB
    assert daemon.status().high_water_bytes <= 100 * MIB
    assert sum(job.evictions for job in jobs) > 0
    daemon.stop()


def test_a_job_that_hoards_memory_is_evicted_for_each_iteration_that_needs_it(tmp_path: Path) -> None:
    daemon = DaemonThread(tmp_path / "run", Everything())
    hog = daemon.run(name="hog", iterations=100_000, ephemeral=8 * MIB, hoards=45 * MIB)
    goes_on(hog)
    other = daemon.run(name="other", iterations=3, ephemeral=50 * MIB)
    other.join()
    assert hog.evictions >= 2
    goes_on(hog)
    daemon.stop()


def test_a_job_evicted_for_an_iteration_that_then_hangs_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "HANGING_NS", 300_000_000)
    monkeypatch.setattr(patience, "HANGING_ITERATIONS", 0)
    daemon = DaemonThread(tmp_path / "run", Everything())
    tide = {"persistent": 1 * MIB, "ephemeral": 36 * MIB, "surprise": 32 * MIB}
    oldest = daemon.run(name="oldest", iterations=4, seconds=0.8, hangs_at=2, hangs_low=True, surprise_from=2, **tide)
    other = daemon.run(name="other", iterations=4, seconds=0.2, pause_at=1, **tide)
    until(lambda: oldest.done == 2, "the iteration that will stand still")
    other.go_on.set()
    other.join()
    assert other.done == 4
    assert other.evictions > 0
    assert oldest.done == 2
    oldest.go_on.set()
    oldest.join()
    assert daemon.status().high_water_bytes <= 100 * MIB
    daemon.stop()


def test_the_daemon_reports_a_full_disk_once_and_goes_on_without_a_log(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "run")
    try:
        job = daemon.run(name="a", iterations=100_000)
        goes_on(job)
        until(daemon.paths.events.exists, "the log to be there")
        daemon.paths.events.unlink()
        daemon.paths.events.symlink_to("/dev/full")
        until(lambda: "No space left" in daemon.status().problem, "it to be noticed")
        goes_on(job, 20)
        other = daemon.run(name="b", iterations=20)
        other.join()
    finally:
        said = daemon.stop()
    assert said.count("cannot be written") == 1
    assert "fault" not in said


def test_a_job_that_ends_without_a_message_has_failed(daemon: DaemonThread) -> None:
    job = daemon.run(name="silent", iterations=3, goes_without_a_word=True)
    job.join()
    until(lambda: daemon.has("silent", "failed"), "it to be noticed")
    assert daemon.job("silent").reason == "its process ended without a word"
