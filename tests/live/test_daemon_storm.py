"""Jobs arrive, are stopped, continued and killed at random moments while the budget changes: no job waits forever."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from daemons import MIB, DaemonThread, until
from hangs import HANGS_SECONDS
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import SetBudget

BUDGET = 100 * MIB
STORMS = int(os.environ.get("NEAPTIDE_TEST_STORMS", "1"))  # of each policy
STORM_SECONDS = 3.0


def any_job(chance: random.Random, name: str) -> dict[str, object]:
    """A job that needs much of the device, perhaps more than it says."""
    persistent = chance.randint(2, 35)
    seconds = chance.choice([0.004, 0.02, 0.1])
    serves = {"kind": "inference", "deadline_seconds": chance.choice([0.05, 1.0])} if chance.random() < 0.2 else {}
    return {
        "name": name,
        "persistent": persistent * MIB,
        "ephemeral": chance.randint(20, 86 - persistent) * MIB,
        "surprise": chance.choice([0, 0, 0, 5]) * MIB,
        "hoards": chance.choice([0, 0, 0, 2]) * MIB,
        "iterations": min(round(1 / seconds), 60),
        "seconds": seconds,
        "tell_iterations": chance.random() < 0.3,
        **serves,
    }


class Storm:
    """What happens to the jobs of one daemon; the same seed does the same, though not at the same moments."""

    def __init__(self, daemon: DaemonThread, seed: int) -> None:
        self.daemon = daemon
        self.chance = random.Random(seed)
        self.jobs: dict[str, subprocess.Popen[str]] = {}
        self.stopped: set[str] = set()
        self.killed: set[str] = set()

    def blow(self, seconds: float) -> None:
        for _ in range(3):
            self.come()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.chance.choice([0.02, 0.1, 0.4]))
            what = self.chance.choices((self.stop, self.go_on, self.kill, self.resize, self.come), (35, 35, 8, 6, 16))
            what[0]()
        for name in self.stopped:
            self.jobs[name].send_signal(signal.SIGCONT)

    def here(self) -> list[str]:
        return [name for name, job in self.jobs.items() if job.poll() is None]

    def come(self) -> None:
        if len(self.here()) < 6:
            name = f"job-{len(self.jobs)}"
            self.jobs[name] = self.daemon.spawn(**any_job(self.chance, name))

    def stop(self) -> None:
        if here := self.here():
            self.stopped.add(name := self.chance.choice(here))
            self.jobs[name].send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self.stopped:
            self.stopped.remove(name := self.chance.choice(sorted(self.stopped)))
            self.jobs[name].send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if here := self.here():
            self.killed.add(name := self.chance.choice(here))
            self.stopped.discard(name)
            self.jobs[name].kill()

    def resize(self) -> None:
        ask(self.daemon.paths, SetBudget(self.chance.randint(95, 100) * MIB))


@pytest.mark.parametrize("policy", ["neaptide", "temporal"])
@pytest.mark.parametrize("seed", range(2, 2 + STORMS))
def test_after_a_storm_every_job_that_was_not_killed_ends_and_all_memory_returns(
    policy: str, seed: int, tmp_path: Path
) -> None:
    daemon = DaemonThread(tmp_path / "run", policy, BUDGET)
    storm = Storm(daemon, seed)
    try:
        storm.blow(STORM_SECONDS)
        ask(daemon.paths, SetBudget(BUDGET))
        moved, since = -1, time.monotonic()
        while storm.here():
            if (done := sum(job.iterations_done for job in daemon.status().jobs)) != moved:
                moved, since = done, time.monotonic()
            assert time.monotonic() < since + HANGS_SECONDS, f"{daemon.status()}\n{daemon.board.snapshot()}"
            time.sleep(0.02)
        ended = {name: job.returncode for name, job in storm.jobs.items() if name not in storm.killed}
        assert set(ended.values()) <= {0}, ended
        until(lambda: daemon.status().used_bytes == 0, "all memory to be back")
        assert daemon.board.snapshot().high_water_bytes <= BUDGET
    finally:
        daemon.stop()
