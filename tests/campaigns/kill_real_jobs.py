"""Real trainings killed at any moment: python tests/campaigns/kill_real_jobs.py 36.

The job that is left in the end computes what it computes alone, and all memory returns.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from daemons import MIB, kill, until
from real_jobs import SECONDS, RealDaemon, until_step

JOBS = (("resnet18", "32", "1000"), ("gpt2", "8", "1000"))
LAST = ("resnet18", "32", "20")
BUDGET = 120 * MIB
AT_ONCE = 2


def kill_real_jobs(daemon: RealDaemon, count: int, seed: int = 1) -> None:
    """Start jobs in pairs, kill each at some step, and see that nothing is left of them."""
    chance = random.Random(seed)
    for number in range(0, count, AT_ONCE):
        victims = [daemon.begin(f"victim-{number + each}", JOBS[each]) for each in range(AT_ONCE)]
        for victim in victims:
            if chance.random() < 0.8:
                until_step(victim, chance.randint(0, 20))
            time.sleep(chance.random())
            kill(victim)
        until(lambda: not daemon.board.snapshot().slots, "the slots to be free", SECONDS)
        daemon.processes.clear()
    daemon.ends_as_alone(daemon.begin("last", LAST), LAST)
    daemon.check_memory()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="neaptide-") as folder:
        real = RealDaemon(Path(folder) / "run", "neaptide", BUDGET)
        began = time.monotonic()
        try:
            kill_real_jobs(real, int(sys.argv[1]))
            print(f"faults {sys.argv[1]}, seconds {time.monotonic() - began:.1f}")
        finally:
            real.stop()
