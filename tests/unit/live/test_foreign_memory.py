"""The daemon's budget beside processes that it does not manage."""

from __future__ import annotations

import asyncio
from pathlib import Path

from neaptide.devices import find_kind
from neaptide.devices.board import Board, Region
from neaptide.live.daemon.clock import LoopClock
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.policies.files import find_policy

MIB, SECOND = 1 << 20, 1_000_000_000


def test_the_budget_is_lowered_while_others_take_the_memory_and_raised_again(tmp_path: Path) -> None:
    left: list[int | None] = [None]

    class Crowded(type(find_kind("fake"))):  # type: ignore[misc]
        def most_bytes(self, board: Board) -> int | None:  # noqa: ARG002
            return left[0]

    board, loop = Board.create(tmp_path / "board", 100 * MIB, Region(None, 2)), asyncio.new_event_loop()
    policy = find_policy("temporal")
    daemon = Daemon(board, RuntimePaths(tmp_path), policy, 100 * MIB, LoopClock(loop), print, kind=Crowded())

    def budget_after(seconds: float) -> int:
        daemon.beat(int(seconds * SECOND))
        assert board.snapshot().capacity_bytes == daemon.status().budget_bytes
        return daemon.status().budget_bytes // MIB

    assert budget_after(10) == 100
    left[0] = 60 * MIB
    assert budget_after(10.5) == 100  # it looks once a second
    assert budget_after(11) == 60
    left[0] = 0
    assert budget_after(12) == 2  # a chunk at least
    left[0] = 200 * MIB
    assert budget_after(13) == 100
    loop.close()
