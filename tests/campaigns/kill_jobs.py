"""Jobs killed at any moment beside two honest ones: python tests/campaigns/kill_jobs.py 1000."""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from campaigns.witnesses import MOST_GROWTH_BYTES, Figures, Witnesses, main, memory_bytes
from daemons import MIB, SECONDS, DaemonProcess, until
from fake_job import FakeJob, FakeJobSpec
from neaptide.devices.board import Board

AT_ONCE = 3


def _run(socket: Path, board: Path, spec: FakeJobSpec) -> None:
    FakeJob(socket, board, spec).run()


def _victim(context: ForkServerContext, daemon: DaemonProcess, chance: random.Random, number: int) -> ForkServerProcess:
    spec = FakeJobSpec(
        name=f"victim-{number}",
        persistent=chance.randint(2, 20) * MIB,
        ephemeral=chance.randint(8, 50) * MIB,
        surprise=chance.choice([0, 0, 5]) * MIB,
        iterations=10**6,
        seconds=chance.choice([0.002, 0.02]),
    )
    process = context.Process(target=_run, args=(daemon.paths.socket, daemon.paths.board, spec))
    process.start()
    return process


def kill_jobs(daemon: DaemonProcess, count: int, seed: int = 1) -> Figures:
    """Start jobs and kill each after a while; all their memory returns, and the honest jobs go on."""
    chance = random.Random(seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fake_job", "neaptide.devices.fake.agent"])
    board = Board.open(daemon.paths.board)
    witnesses = Witnesses(
        [daemon.run(name=name, iterations=10**9, persistent=5 * MIB, ephemeral=20 * MIB) for name in ("one", "two")]
    )
    warm_bytes = 0
    for number in range(0, count, AT_ONCE):
        victims = [_victim(context, daemon, chance, number + each) for each in range(min(AT_ONCE, count - number))]
        for victim in victims:
            time.sleep(chance.choice([0.0, 0.02, 0.1, 0.3]))
            victim.kill()
            victim.join(SECONDS)
            victim.close()
        if number // AT_ONCE == count // AT_ONCE // 10:
            warm_bytes = memory_bytes(daemon.process.pid)
        if number % (10 * AT_ONCE) == 0:
            witnesses.all_go_on()
    until(lambda: sum(not job.state.ended for job in daemon.status().jobs) == 2, "the killed jobs to be gone")
    until(lambda: daemon.status().used_bytes <= 2 * 25 * MIB, "their memory to be back")
    until(lambda: len(board.snapshot().slots) == 2, "their slots to be free")
    assert board.snapshot().high_water_bytes <= daemon.budget
    assert msgspec.json.encode(daemon.status())
    figures = witnesses.figures(count, memory_bytes(daemon.process.pid) - warm_bytes)
    assert figures.grown_bytes < MOST_GROWTH_BYTES, figures
    board.close()
    return figures


if __name__ == "__main__":
    main(kill_jobs)
