"""Damages the board of a running daemon: the daemon lives, honest jobs keep the budget and go on.

As a program: python tests/damaged_boards.py COUNT [SEED [LENGTH ...]] cuts the board to each length, then damages it
COUNT times at random, and says what came of it. A hundred take about a minute.
"""

from __future__ import annotations

import mmap
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from board_member import Member
from daemons import DaemonProcess, until
from fake_job import FakeJob
from neaptide.devices.board import Board

MIB = 1 << 20
BUDGET = 100 * MIB


class Traders:
    """Members of the board that take and give memory at random and keep their own books."""

    def __init__(self, path: Path, count: int, chance: random.Random) -> None:
        self._board = Board.open(path)
        self._members = [Member(self._board, f"trader {index}") for index in range(count)]
        self._chance = chance
        self.granted = 0

    def trade(self) -> None:
        for member in self._members:
            member.mend()  # as a job does every 25 ms
            self._board.set_ceiling(member.slot, None)  # as the daemon does for its jobs
            self._board.set_limit(member.slot, None)
            if member.held_bytes and self._chance.random() < 0.4:
                member.give(member.held_bytes)
            elif member.take(self._chance.randrange(1, 8) * MIB):
                self.granted += 1

    @property
    def held_bytes(self) -> int:
        return sum(member.held_bytes for member in self._members)

    def leave(self) -> None:
        for member in self._members:
            member.leave()


def held_by(jobs: list[FakeJob]) -> int:
    """What the jobs themselves know that they hold, at one moment: read one after the other, they may pass bytes on."""
    with ExitStack() as standing_still:
        for job in jobs:
            standing_still.enter_context(job.agent.standing_still())
        return sum(job.agent.memory().held_bytes for job in jobs)


def damage(path: Path, chance: random.Random, cut: int | None) -> str:
    """Cut the file to `cut` bytes, or do at random: flip, zero or fill bytes, or cut it short. Says what was done.

    A negative `cut` counts from the end.
    """
    size = path.stat().st_size
    if cut is None and chance.random() < 0.1:
        cut = chance.randrange(size)
    if cut is not None:
        with path.open("r+b") as file:
            file.truncate(cut % size)
        return f"cut to {cut} bytes"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as board:
        if chance.random() < 0.4:
            count = chance.choice((1, 8, 64, 1000))
            for _ in range(count):
                board[chance.randrange(size)] ^= 1 << chance.randrange(8)
            return f"{count} bits flipped"
        first = chance.randrange(size)
        length = min(size - first, chance.choice((1, 8, 64, 512, 4096, size)))
        fill = chance.choice((b"\0", b"\xff", bytes([chance.randrange(256)]), None))
        board[first : first + length] = chance.randbytes(length) if fill is None else fill * length
        return f"{length} bytes from {first} {'filled at random' if fill is None else f'set to {fill!r}'}"


def damage_and_watch(
    daemon: DaemonProcess, jobs: list[FakeJob], traders: Traders, chance: random.Random, cut: int | None
) -> str:
    """Damage the board once; AssertionError unless the daemon lives, the budget holds and everybody goes on."""
    done, granted = [job.done for job in jobs], traders.granted
    what = damage(daemon.paths.board, chance, cut)
    deadline = time.monotonic() + 60

    def all_went_on() -> bool:
        return traders.granted > granted + 2 and all(
            job.done > before + 2 for job, before in zip(jobs, done, strict=True)
        )

    while not all_went_on():
        traders.trade()
        assert daemon.process.poll() is None, f"the daemon ended after {what}"
        held = held_by(jobs) + traders.held_bytes
        assert held <= BUDGET, f"{held} bytes are held after {what}"
        assert time.monotonic() < deadline, f"after {what} not all go on: {[job.done for job in jobs]} {done}"
        time.sleep(0.001)
    return what


def campaign(folder: Path, count: int, seed: int, cuts: Sequence[int] = ()) -> None:
    """Cut the board to each of these lengths, then damage it `count` times at random."""
    chance = random.Random(seed)
    daemon = DaemonProcess(folder, budget=BUDGET)
    try:
        jobs = [daemon.run(name=name, iterations=1_000_000, ephemeral=20 * MIB) for name in "ab"]
        until(lambda: all(job.done > 2 for job in jobs), "both to run")
        size = daemon.paths.board.stat().st_size
        traders = Traders(daemon.paths.board, 2, chance)
        for index, cut in enumerate([*cuts, *[None] * count]):
            print(index, damage_and_watch(daemon, jobs, traders, chance, cut), flush=True)
        traders.leave()
        for job in jobs:
            job.stop.set()
            job.join()
        until(lambda: daemon.status().used_bytes == 0, "all memory to be back")
        until(lambda: daemon.paths.board.stat().st_size == size, "the board to be whole")
        late = daemon.run(name="late", iterations=3)
        late.join()
        assert late.done == 3
    finally:
        said = daemon.stop()
        assert "fault" not in said, said


if __name__ == "__main__":
    chosen_count, chosen_seed, *chosen_cuts = [*map(int, sys.argv[1:]), *([0] if len(sys.argv) == 2 else [])]
    with tempfile.TemporaryDirectory() as temporary:
        campaign(Path(temporary) / "run", chosen_count, chosen_seed, chosen_cuts)
    print("all survived")
