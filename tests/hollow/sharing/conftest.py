"""Tests of the CUDA device: they run in a venv with torch's CUDA build and the hollow device, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if not any(Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/cu13/lib/libhollow.so")):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """Build the CUDA device before the clock of any test runs."""
    source = Path(__file__).parents[3] / "src"
    call = f"import sys; sys.path.insert(0, {str(source)!r}); import neaptide.devices.cuda.extension"
    subprocess.run([sys.executable, "-c", call], check=True)
