"""CUDA jobs, their daemon and the keeper of their pages killed at any moment.

`.venv-cuda/bin/python tests/campaigns/cuda_kills.py 300 30 30 [seed]` kills so many jobs, and so many times the daemon
and the keeper. No byte of the GPU is lost or used beyond the budget, nobody hangs, the jobs beside them go on, and what
they wrote stays as it was.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from hollow.sharing.cuda_daemon import MIB, CudaDaemon, Job, until
from hollow.sharing.running import Hollow
from neaptide.devices.cuda.page_table import PageTable

BUDGET_BYTES = 900 * MIB
WITNESSES = ("one", "two")
MOMENTS = (0.0, 0.02, 0.1, 0.3, 0.6, 1.2)  # seconds after which a job is killed: before its context to its iterations
AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Figures:
    """What was seen."""

    faults: int
    seconds: float
    steps: int  # of the witnesses
    wrong: int  # of their blocks
    device_share: float  # the most that the GPU had in use, of the budget

    def __str__(self) -> str:
        return (
            f"faults {self.faults}, seconds {self.seconds:.0f}, steps of the witnesses {self.steps}, "
            f"wrong {self.wrong}, most of the budget by the device's count {self.device_share:.4f}"
        )


def kill_jobs(daemon: CudaDaemon, count: int, seed: int = 1) -> Figures:
    """Start jobs and kill each after a while."""
    chance, began = random.Random(seed), time.monotonic()
    witnesses, nursery = _witnesses(daemon), daemon.begin("nursery", "nursery")
    for number in range(0, count, AT_ONCE):
        victims = [nursery.bear() for _ in range(min(AT_ONCE, count - number))]
        for victim in victims:
            time.sleep(chance.choice(MOMENTS))
            os.kill(victim, signal.SIGKILL)
        if number % (10 * AT_ONCE) == 0:
            for witness in witnesses:
                witness.goes_on()
    nursery.kill()
    daemon.jobs.remove(nursery)
    _nothing_is_left(daemon, witnesses)
    return _figures(daemon, count, began)


def kill_daemon(daemon: CudaDaemon, count: int, seed: int = 1) -> Figures:
    """Kill the daemon so many times; every job goes on without it and joins the next one."""
    chance, began = random.Random(seed), time.monotonic()
    witnesses = _witnesses(daemon)
    for number in range(count):
        time.sleep(chance.choice(MOMENTS))
        daemon.kill()
        if number % 3 == 0:  # without a daemon
            for witness in witnesses:
                witness.goes_on()
        daemon.start()
        until(lambda: {job.name for job in daemon.status().jobs} >= set(WITNESSES), "all to join the new daemon")
        for witness in witnesses:
            witness.goes_on()
    _nothing_is_left(daemon, witnesses)
    return _figures(daemon, count, began)


def kill_keeper(daemon: CudaDaemon, count: int, seed: int = 1) -> Figures:
    """Kill the process that makes the GPU's pages so many times; jobs keep what they have and start another."""
    chance, began = random.Random(seed), time.monotonic()
    witnesses, table, killed = _witnesses(daemon), PageTable(daemon.board), {0}
    for _ in range(count):
        time.sleep(chance.choice(MOMENTS))
        until(lambda: table.keeper_pid not in killed, "a keeper to begin")
        killed.add(table.keeper_pid)
        os.kill(table.keeper_pid, signal.SIGKILL)
        for witness in witnesses:
            witness.goes_on()
    _nothing_is_left(daemon, witnesses)
    return _figures(daemon, count, began)


def _witnesses(daemon: CudaDaemon) -> list[Job]:
    witnesses = [daemon.begin(name) for name in WITNESSES]
    for witness in witnesses:
        witness.has_said(2)
    return witnesses


def _nothing_is_left(daemon: CudaDaemon, witnesses: list[Job]) -> None:
    """Only the witnesses have a slot, a context and memory."""
    pids = {witness.process.pid for witness in witnesses}
    until(lambda: _slots(daemon) == pids, "the slots of the dead to be free")
    until(lambda: _with_contexts(daemon) == pids, "the contexts of the dead to be gone")
    for witness in witnesses:
        witness.goes_on()


def _with_contexts(daemon: CudaDaemon) -> set[int]:
    """Not the keeper, which has pages and no context."""
    return {each.pid for each in daemon.device.processes() if each.context_bytes}


def _slots(daemon: CudaDaemon) -> set[int]:
    daemon.status()  # has the daemon look for the dead
    return {slot.pid for slot in daemon.board.snapshot().slots}


def _figures(daemon: CudaDaemon, faults: int, began: float) -> Figures:
    ended = daemon.end_jobs()
    until(lambda: daemon.status().used_bytes == 0, "all leases to return")
    until(lambda: daemon.device.used() == 0, "the device to be empty")
    figures = Figures(
        faults=faults,
        seconds=time.monotonic() - began,
        steps=sum(each["steps"] for each in ended),
        wrong=sum(each["wrong"] for each in ended),
        device_share=daemon.device.peak() / daemon.budget_bytes,
    )
    assert figures.wrong == 0, figures
    assert figures.device_share <= 1, figures
    return figures


if __name__ == "__main__":
    *counts, first_seed = map(int, [*sys.argv[1:4], *(sys.argv[4:] or ["1"])])
    for campaign, count in zip((kill_jobs, kill_daemon, kill_keeper), counts, strict=True):
        if count == 0:
            continue
        with tempfile.TemporaryDirectory(prefix="npt-") as name:
            hollow = Hollow(Path(name), memory="4G")
            hollow.environment["HOLLOW_TEARDOWN_MS"] = "30"  # a driver takes a moment to take a context away
            with CudaDaemon(hollow, BUDGET_BYTES) as real:
                print(f"{campaign.__name__}: {campaign(real, count, first_seed)}", flush=True)
