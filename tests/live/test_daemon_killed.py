"""A daemon is killed: its jobs go on without it, and the next daemon finds them again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from daemons import MIB, DaemonProcess, goes_on, until, until_it_ran
from fake_job import FakeJob
from neaptide.devices.board import Board, Request, SlotState
from sending_away import STAYS, sending_away


def test_a_new_daemon_finds_the_jobs_of_a_killed_one(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "run")
    try:
        _kill_and_restart(daemon)
    finally:
        assert "fault" not in daemon.stop()


def _kill_and_restart(daemon: DaemonProcess) -> None:
    jobs = [daemon.run(name=name, iterations=100_000) for name in "ab"]
    until(lambda: all(job.done > 5 for job in jobs), "both to run")
    daemon.process.kill()
    daemon.process.communicate()
    for job in jobs:
        goes_on(job)  # under the board's limits
    daemon.start()
    until(lambda: all(daemon.has(name, "running") or daemon.has(name, "ready") for name in "ab"), "both to be back")
    for job in jobs:
        goes_on(job, 20)
    late = daemon.run(name="late", iterations=10)
    late.join()
    assert daemon.status().high_water_bytes <= 100 * MIB
    assert max(job.most for job in jobs) == 50 * MIB


def kill_daemon(daemon: DaemonProcess) -> None:
    daemon.process.kill()
    daemon.process.communicate()


@pytest.mark.parametrize("state", STAYS, ids=lambda state: state.name.lower())
def test_a_job_in_host_memory_returns_when_the_daemon_is_killed(state: SlotState, tmp_path: Path) -> None:
    daemon = sending_away(tmp_path, state)
    try:
        away, other = (daemon.run(name=name, iterations=100_000) for name in ("away", "other"))
        until(lambda: away.board.progress(away.slot).state is state, "it to be sent away")
        goes_on(other)
        assert away.board.progress(away.slot).held_bytes == 0
        kill_daemon(daemon)
        for job in (away, other):
            goes_on(job)  # under the board's limits
        daemon.policy = "neaptide"
        daemon.start()
        _are_back_and_lose_nothing(daemon, away, other)
    finally:
        assert "fault" not in daemon.stop()


def test_a_new_daemon_undoes_an_eviction_that_the_killed_one_had_asked_for(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "run")
    try:
        job = daemon.spawn(name="late", iterations=100_000)
        until_it_ran(job, 3)
        kill_daemon(daemon)
        until_it_ran(job, 30)  # it goes on alone, and looks for a daemon
        job.send_signal(signal.SIGSTOP)
        board = Board.open(daemon.paths.board)
        (slot,) = (each.slot for each in board.snapshot().slots)
        board.set_request(slot, Request.EVICT)
        daemon.start()
        job.send_signal(signal.SIGCONT)
        until(lambda: daemon.has("late", "running") or daemon.has("late", "ready"), "it to be back")
        ran = daemon.job("late").iterations_done
        until(lambda: daemon.job("late").iterations_done > ran + 20, "it to go on")
    finally:
        assert "fault" not in daemon.stop()


def _are_back_and_lose_nothing(daemon: DaemonProcess, *jobs: FakeJob) -> None:
    names = [job.spec.name for job in jobs]
    until(lambda: all(daemon.has(name, "running") or daemon.has(name, "ready") for name in names), "all to be back")
    for job in jobs:
        goes_on(job, 20)
    assert daemon.status().high_water_bytes <= daemon.budget
    for job in jobs:
        job.stop.set()
        job.join()
    until(lambda: daemon.status().used_bytes == 0, "all memory to be back")
    large = daemon.run(name="large", iterations=3, persistent=40 * MIB, ephemeral=56 * MIB)
    large.join()
    assert large.done == 3
