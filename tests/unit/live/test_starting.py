"""Ending a daemon."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest

from neaptide.live.protocol.lock import DaemonLock
from neaptide.live.protocol.paths import RuntimePaths, prepare
from neaptide.live.runs.starting import StartError, start_daemon_for_run, starting_alone, stop_daemon


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
        pytest.raises(ValueError, match=f"is still there after 0 s; end it with kill -9 {os.getpid()}"),
    ):
        stop_daemon(paths, seconds=0.0)


def test_a_daemon_that_says_nothing_because_nothing_can_be_written_is_explained(
    paths: RuntimePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with starting_alone(paths):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as on a full disk
        try:
            with pytest.raises(StartError, match=r"nothing can be written to .*daemon.log: File too large"):
                start_daemon_for_run(paths, "neaptide", 1 << 30)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
