"""Ending a daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neaptide.live.protocol.lock import DaemonLock
from neaptide.live.protocol.paths import RuntimePaths, prepare
from neaptide.live.runs.starting import stop_daemon


@pytest.fixture
def paths(tmp_path: Path) -> RuntimePaths:
    paths = RuntimePaths(tmp_path / "r")
    prepare(paths)
    return paths


def test_where_no_daemon_runs_there_is_nothing_to_end(paths: RuntimePaths) -> None:
    assert not stop_daemon(paths, seconds=0.0)


def test_a_daemon_that_does_not_end_is_named_with_its_pid(paths: RuntimePaths) -> None:
    with (
        DaemonLock(paths),
        pytest.raises(ValueError, match=f"is still there after 0 s; end it with kill {os.getpid()}"),
    ):
        stop_daemon(paths, seconds=0.0)
