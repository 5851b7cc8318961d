"""NVIDIA's multi-process service beside a daemon, with a program that stands in for its control."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from neaptide.devices import find_kind
from neaptide.devices.cuda import mps

CONTROL = """#!/bin/sh
if [ "$1" = -d ]; then
    if [ -n "$MPS_FAILS" ]; then echo "$MPS_FAILS"; exit 1; fi
    echo "start $CUDA_MPS_PIPE_DIRECTORY" >> "$MPS_RECORD"
else
    read -r word
    while [ -e "$MPS_RECORD.client" ]; do sleep 0.01; done
    echo "$word $CUDA_MPS_PIPE_DIRECTORY" >> "$MPS_RECORD"
fi
"""
DAEMON = """
import sys, time
from pathlib import Path
from neaptide.devices.cuda import mps
board = Path(sys.argv[1])
with mps.beside(board):
    print(mps.environment(board, True)["CUDA_MPS_PIPE_DIRECTORY"], flush=True)
    time.sleep(600)
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in writes what it was asked."""
    programs = tmp_path / "programs"
    programs.mkdir()
    control = programs / mps.CONTROL
    control.write_text(CONTROL)
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPS_RECORD", str(tmp_path / "record"))
    return tmp_path / "record"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run" / "board"


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_jobs_find_the_service_and_best_effort_ones_have_the_lower_priority(record: Path, board: Path) -> None:
    assert mps.environment(board, best_effort=True) == {}
    with mps.beside(board):
        best_effort, deadline = (mps.environment(board, best_effort=each) for each in (True, False))
        pipe = best_effort["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(pipe).is_dir()
        assert Path(pipe).is_relative_to(board.parent)
        assert Path(best_effort["CUDA_MPS_LOG_DIRECTORY"]).is_relative_to(board.parent)
        assert best_effort["CUDA_MPS_CLIENT_PRIORITY"] == "1"
        assert "CUDA_MPS_CLIENT_PRIORITY" not in deadline
        assert record.read_text() == f"start {pipe}\n"
    assert mps.environment(board, best_effort=True) == {}
    until(lambda: record.read_text() == f"start {pipe}\nquit {pipe}\n")
    until(lambda: not list(board.parent.iterdir()))


def test_a_service_that_jobs_still_use_does_not_keep_the_daemon(record: Path, board: Path) -> None:
    client = Path(f"{record}.client")
    client.touch()
    with mps.beside(board):
        first = mps.environment(board, best_effort=True)
    with mps.beside(board):  # the next daemon has one of its own
        assert mps.environment(board, best_effort=True) != first
    client.unlink()
    until(lambda: record.read_text().count("quit") == 2)


def test_the_service_of_a_killed_daemon_is_told_to_quit(record: Path, board: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", DAEMON, str(board)], stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        pipe = daemon.stdout.readline().strip()
        daemon.send_signal(signal.SIGKILL)
    until(lambda: record.read_text() == f"start {pipe}\nquit {pipe}\n")
    until(lambda: not list(board.parent.iterdir()))


@pytest.mark.usefixtures("record")
def test_a_service_that_does_not_start_is_said_and_not_used(
    board: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MPS_FAILS", "another one runs")
    with mps.beside(board):
        assert mps.environment(board, best_effort=True) == {}
    said = capfd.readouterr().err
    assert "(another one runs): kernels of two jobs take time slices" in said
    assert said.count("\n") == 1


def test_without_the_program_one_line_says_what_is_lost(board: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(board.parent))
    wanted = find_kind("cuda").board_settings_type(mps=True)
    (line,) = wanted.lost()
    assert "nvidia-cuda-mps-control was not found: kernels of two jobs take time slices" in line
    assert find_kind("cuda").board_settings_type().lost() == []
    with find_kind("cuda").services(board, wanted):
        assert mps.environment(board, best_effort=True) == {}
