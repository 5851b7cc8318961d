"""`neaptide run` on the hollow device: a program that knows nothing of neaptide becomes a job on the GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hollow.sharing.cuda_daemon import until
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


CONTROL = """#!/bin/sh
[ "$1" = -d ] && word=start || read -r word
echo "$word $CUDA_MPS_PIPE_DIRECTORY" >> "$MPS_RECORD"
"""
SAYS_VARIABLES = (
    "import os, torch; torch.zeros(1, device='cuda'); "
    "print('mps', os.environ['CUDA_MPS_PIPE_DIRECTORY'], os.environ.get('CUDA_MPS_CLIENT_PRIORITY'))"
)


def test_jobs_of_a_daemon_with_mps_use_its_service_which_ends_with_the_daemon(hollow: Hollow, tmp_path: Path) -> None:
    control, record = tmp_path / "programs" / "nvidia-cuda-mps-control", tmp_path / "record"
    control.parent.mkdir()
    control.write_text(CONTROL)
    control.chmod(0o755)
    hollow.environment |= {"PATH": f"{control.parent}:{hollow.environment['PATH']}", "MPS_RECORD": str(record)}
    done = run(hollow, "up", "--mps", "--budget", "1GiB")
    assert done.returncode == 0, done.stderr
    try:
        pipe = record.read_text().split()[1]
        job = run(hollow, "run", "--", sys.executable, "-c", SAYS_VARIABLES)
        assert f"mps {pipe} 1" in job.stdout, job.stdout + job.stderr
    finally:
        run(hollow, "down")
    until(lambda: record.read_text() == f"start {pipe}\nquit {pipe}\n", "the service to quit")


def test_without_mps_a_line_says_what_is_lost(hollow: Hollow) -> None:
    done = run(hollow, "up", "--mps", "--budget", "1GiB")
    run(hollow, "down")
    assert done.returncode == 0, done.stderr
    assert "nvidia-cuda-mps-control was not found: kernels of two jobs take time slices" in done.stderr
    assert done.stderr.count("mps-control") == 1
