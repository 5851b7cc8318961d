"""`neaptide run` on the hollow device: a program that knows nothing of neaptide becomes a job on the GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hollow.sharing.running import Hollow

PROGRAM = Path(__file__).parent / "programs" / "train.py"


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    return Hollow(tmp_path, memory="4G")


def run(hollow: Hollow, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "neaptide", *words]
    return subprocess.run(call, env=hollow.environment | environment, capture_output=True, text=True, timeout=900)


def test_a_single_program_is_shared_without_a_jobs_file(hollow: Hollow) -> None:
    done = run(hollow, "run", "--", sys.executable, str(PROGRAM), "256", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "attached as" in done.stderr
    assert "trained 6 steps" in done.stdout
