"""A few faults of each campaign; tests/campaigns runs as many as wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.fuzz_messages import fuzz
from campaigns.kill_daemon import kill_daemon
from campaigns.kill_jobs import kill_jobs
from campaigns.stop_and_continue import stop_and_continue
from daemons import DaemonProcess


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    daemon = DaemonProcess(tmp_path / "run")
    yield daemon
    assert "fault" not in daemon.stop()


def test_fuzzed_messages_harm_neither_the_daemon_nor_honest_jobs(daemon: DaemonProcess) -> None:
    assert fuzz(daemon, 1500).faults >= 1500


def test_killed_jobs_leave_nothing_behind(daemon: DaemonProcess) -> None:
    assert kill_jobs(daemon, 9).faults == 9


def test_jobs_survive_every_kill_of_the_daemon_and_a_smaller_budget(daemon: DaemonProcess) -> None:
    assert kill_daemon(daemon, 4).faults == 4


def test_jobs_and_daemons_that_are_stopped_and_continued_lose_nothing(daemon: DaemonProcess) -> None:
    assert stop_and_continue(daemon, 12).faults == 12
