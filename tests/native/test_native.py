"""Runs the native layer's C++ tests, one pytest test for each TEST in a `*_test.cpp`.

They are built with g++ and make into build/native. `make -C tests/native sanitize` runs the same tests under the
address, undefined-behaviour and thread sanitizers, `make -C tests/native valgrind` under valgrind.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
BUILD = FOLDER.parents[1] / "build" / "native" / "plain" / "tests"
SECONDS = 600  # a hang is a failure; the slowest test takes a few seconds, and minutes on a busy machine


def all_tests() -> list[tuple[str, str]]:
    return [
        (source.stem, name)
        for source in sorted(FOLDER.glob("*_test.cpp"))
        for name in re.findall(r"^TEST\((\w+)\)", source.read_text(), re.MULTILINE)
    ]


@pytest.fixture(scope="session")
def programs() -> Path:
    if not shutil.which("g++") or not shutil.which("make"):
        pytest.skip("the native tests need g++ and make")
    command = ["make", "--no-print-directory", "-C", str(FOLDER)]
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:  # one worker builds them, and the others find them built
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return BUILD


@pytest.mark.parametrize(("program", "name"), all_tests())
def test_a_native_case_passes(programs: Path, tmp_path: Path, program: str, name: str) -> None:
    run = subprocess.run(
        [programs / program, name], capture_output=True, text=True, timeout=SECONDS, env={"TMPDIR": str(tmp_path)}
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"ok {name}" in run.stdout
