"""A daemon that is stopped: its jobs go on under the board's limits, and are shared again when it goes on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from daemons import MIB, DaemonProcess, goes_on, until
from neaptide.devices.board import Board, SlotState
from sending_away import STAYS, sending_away


def test_jobs_go_on_while_the_daemon_is_stopped_and_are_shared_again_afterwards(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "run", "temporal")
    try:
        # Together they fit the budget: without a daemon nobody is evicted.
        jobs = [daemon.run(name=name, iterations=100_000, ephemeral=25 * MIB) for name in "ab"]
        until(lambda: all(job.done > 5 for job in jobs), "both to run")
        daemon.process.send_signal(signal.SIGSTOP)
        newcomer = daemon.run(name="c", iterations=100_000, ephemeral=10 * MIB)
        for job in (*jobs, newcomer):
            goes_on(job, 50)
        daemon.process.send_signal(signal.SIGCONT)
        until(lambda: all(daemon.has(name, "running") or daemon.has(name, "ready") for name in "abc"), "all to be back")
        counted = {name: daemon.job(name).iterations_done for name in "abc"}
        until(lambda: all(daemon.job(name).iterations_done > counted[name] + 20 for name in "abc"), "all to go on")
        board = Board.open(daemon.paths.board)
        assert not board.daemon_silent()
        # A policy that lets one job run at a time has its way again.
        until(
            lambda: sum(slot.state is SlotState.WAITING_PERMIT for slot in board.snapshot().slots) >= 2,
            "two to wait for their permits",
        )
        assert daemon.status().high_water_bytes <= 100 * MIB
        for job in (*jobs, newcomer):
            job.stop.set()
            job.join()
        until(lambda: daemon.status().used_bytes == 0, "all memory to be back")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        assert "fault" not in daemon.stop()


@pytest.mark.parametrize("state", STAYS, ids=lambda state: state.name.lower())
def test_a_job_in_host_memory_returns_while_the_daemon_is_stopped_and_leaves_again(
    state: SlotState, tmp_path: Path
) -> None:
    daemon = sending_away(tmp_path, state)
    try:
        away, other = (daemon.run(name=name, iterations=100_000) for name in ("away", "other"))
        until(lambda: away.board.progress(away.slot).state is state, "it to be sent away")
        goes_on(other)
        daemon.process.send_signal(signal.SIGSTOP)
        for job in (away, other):
            goes_on(job)
        daemon.process.send_signal(signal.SIGCONT)
        until(lambda: away.board.progress(away.slot).state is state, "it to be sent away again")
        goes_on(other)
        assert away.board.snapshot().high_water_bytes <= daemon.budget
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        assert "fault" not in daemon.stop()
