"""Admission counts leases, which exceed the bytes that tensors need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from board_member import Member
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Board, Region
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths
from scripted_daemon import ScriptedCaller, ScriptedClock
from simple_policies import Everything
from tides import tide

MIB = 1 << 20
BUDGET = 62 * MIB
TRACE = encode(tide("job", 50, 0.004, 10 * MIB, 40 * MIB))  # two jobs of it need 10 + 10 + 40 MiB


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    board = Board.create(tmp_path / "board", BUDGET, Region(None, 2))
    yield board
    board.close()


@pytest.mark.parametrize(
    ("overhead", "states"),
    [((0, 0, 0), ["running", "running"]), ((4 * MIB, 4 * MIB, 2 * MIB), ["running", "queued"])],
)
def test_jobs_whose_tensors_fit_but_whose_leases_do_not_are_not_admitted_together(
    board: Board, tmp_path: Path, overhead: tuple[int, int, int], states: list[str]
) -> None:
    daemon = Daemon(board, RuntimePaths(tmp_path), Everything(), BUDGET, ScriptedClock(), print)
    members = [Member(board, name) for name in "ab"]
    for member, name in zip(members, "ab", strict=True):
        caller = ScriptedCaller()
        daemon.heard(caller, say.Hello(pid=os.getpid(), slot=member.slot, job=name))
        daemon.heard(caller, say.Profiled(TRACE, 0, overhead))
    jobs = daemon.status().jobs
    assert [job.state for job in jobs] == states
    assert {job.needs_bytes for job in jobs} == {50 * MIB + overhead[0]}
    daemon.close()
    for member in members:
        member.leave()
