"""A worker of pytest-xdist that crashes is a failure that is shown, and the run ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hangs import HANGS_SECONDS

INTERNAL_ERROR = 3  # of pytest
TESTS = Path(__file__).parents[1]
CRASHES = """
import os, pytest

@pytest.mark.parametrize("number", range(8))
def test_number(number):
    if number in (3, 7):
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["worksteal", "loadgroup"])
def test_a_crashed_worker_is_a_failure_of_its_test_and_all_others_run(how: str, tmp_path: Path) -> None:
    (tmp_path / "test_crashes.py").write_text(CRASHES)
    words = ["-m", "pytest", "-q", "-n", "2", "--dist", how, "-p", "conftest", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, *words, "test_crashes.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
    )
    assert ran.returncode in (1, INTERNAL_ERROR)
    if ran.returncode == INTERNAL_ERROR:  # it was sending work to the worker that crashed at this moment
        assert "already closed" in ran.stdout
        return
    assert "crashed while running 'test_crashes.py::test_number[3]'" in ran.stdout
    assert "crashed while running 'test_crashes.py::test_number[7]'" in ran.stdout
    assert "2 failed, 6 passed" in ran.stdout
