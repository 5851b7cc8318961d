"""Daemons with real jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
