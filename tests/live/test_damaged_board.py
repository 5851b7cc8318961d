"""A board that is damaged in use; tests/damaged_boards.py does it as often as one likes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CAMPAIGN = Path(__file__).parents[1] / "damaged_boards.py"


def _survives(*numbers: int) -> None:
    # In a process of its own: one whose other tests left many boards open mends only those that it opened first.
    words = [sys.executable, str(CAMPAIGN), *map(str, numbers)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.splitlines()[-1:]) == (0, ["all survived"]), ended.stdout + ended.stderr


def test_a_damaged_board_kills_no_daemon_breaks_no_budget_and_stops_no_job() -> None:
    _survives(8, 1)


def test_a_board_that_is_cut_short_kills_no_daemon_breaks_no_budget_and_stops_no_job() -> None:
    _survives(0, 1, 0, 100, 5000, -1)
