"""Daemons, with real jobs and with fake ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemons import DaemonThread
from neaptide.live.runs.starting import stop_daemon
from neaptide_command import Command
from real_jobs import RealDaemon, StartDaemon


@pytest.fixture
def start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[StartDaemon]:
    daemons: list[RealDaemon] = []

    def start(policy: str, budget_bytes: int) -> RealDaemon:
        daemons.append(RealDaemon(tmp_path / "run", policy, budget_bytes))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.stop()
    assert "fault" not in capfd.readouterr().err


@pytest.fixture
def daemon(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[DaemonThread]:
    daemon = DaemonThread(tmp_path / "run")
    yield daemon
    daemon.stop()
    assert "fault" not in capfd.readouterr().err


@pytest.fixture
def neaptide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    command = Command(tmp_path_factory.mktemp("n"))
    yield command
    stop_daemon(command.paths)
