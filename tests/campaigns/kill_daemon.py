"""The daemon killed at any moment, and started again under any budget: python tests/campaigns/kill_daemon.py 100."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.witnesses import Figures, Witnesses, main
from daemons import MIB, DaemonProcess, goes_on, until
from neaptide.devices.board import Board
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.messages import SetBudget

NAMES = ("one", "two", "three")
LARGE, SMALL = 100 * MIB, 24 * MIB  # SMALL is less than one of the jobs needs


def kill_daemon(daemon: DaemonProcess, count: int, seed: int = 1) -> Figures:
    """Kill the daemon so many times; every job goes on without it, joins the next one, and none ends."""
    chance = random.Random(seed)
    board = Board.open(daemon.paths.board)
    spec = {"iterations": 10**9, "persistent": 6 * MIB, "ephemeral": 24 * MIB}
    jobs = [daemon.run(name=name, **spec) for name in NAMES]
    witnesses = Witnesses(jobs)
    for number in range(count):
        time.sleep(chance.choice([0.0, 0.05, 0.3]))
        daemon.process.kill()
        daemon.process.communicate()
        if number % 5 == 0:  # without a daemon
            witnesses.all_go_on()
        daemon.budget = SMALL if number % 4 == 3 else LARGE
        daemon.start()
        until(lambda: {job.name for job in daemon.status().jobs} == set(NAMES), "all to join the new daemon")
        if daemon.budget == SMALL:
            until(lambda: all("needs" in job.reason for job in daemon.status().jobs), "them to wait, and say why")
            ask(daemon.paths, SetBudget(LARGE))
        for job in jobs:
            goes_on(job, 2)
        assert not any(job.state.ended for job in daemon.status().jobs), daemon.status()
    assert board.snapshot().high_water_bytes <= LARGE
    board.close()
    return witnesses.figures(count, 0)


if __name__ == "__main__":
    main(kill_daemon)
