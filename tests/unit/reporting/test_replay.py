"""A daemon's log, replayed: a run in virtual time, and the command that shows what differs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from board_member import Member
from neaptide.cli import main
from neaptide.core.traces.trace_format import encode
from neaptide.devices.board import Board, Region
from neaptide.live.daemon.daemon import Daemon
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.policies.files import find_policy
from scripted_daemon import ScriptedCaller, ScriptedClock
from tides import tide

MIB = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run: two jobs of which each does a few iterations in turn."""
    paths, clock = RuntimePaths(tmp_path), ScriptedClock()
    board = Board.create(paths.board, 100 * MIB, Region(None, 2))
    daemon = Daemon(board, paths, find_policy("temporal"), 100 * MIB, clock, print)
    members = [Member(board, name) for name in "ab"]
    callers = [ScriptedCaller() for _ in members]
    for member, caller, name in zip(members, callers, "ab", strict=True):
        daemon.heard(caller, say.Hello(pid=os.getpid(), slot=member.slot, job=name))
        daemon.heard(caller, say.Profiled(encode(tide(name, 50, 0.004, 10 * MIB, 20 * MIB)), 0, (MIB, MIB, MIB)))
    for index in range(3):
        for member, caller in zip(members, callers, strict=True):
            member.begin_iteration()
            clock.pass_seconds(0.004)
            daemon.heard(caller, say.IterationEnded(index, 1.0, 0, 4_000_000))
    daemon.close()
    for member in members:
        member.leave()
    board.close()
    return tmp_path


def test_the_policy_of_a_run_decides_the_same_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(run)]) == 0
    assert capsys.readouterr().out == "temporal decides the same again\n"


def test_another_policy_decides_otherwise_and_the_first_differences_are_shown(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(run), "--policy", "spatial"]) == 1
    *shown, last = capsys.readouterr().out.splitlines()
    assert 1 <= len(shown) <= 5
    assert "the log says" in shown[0]
    assert last.startswith("spatial answers ")


def test_a_folder_without_a_log_or_a_trace_is_an_error_in_one_line(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(run / "traces")]) == 2
    assert "is not the folder of a run" in capsys.readouterr().err
    (run / "traces" / "b.trace").unlink()
    assert main(["replay", str(run)]) == 2
    assert capsys.readouterr().err.startswith("neaptide: the trace of job b was not kept: ")
