"""Programs written for cuda, run on the software GPU without a change: they give its numbers, bit by bit."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from neaptide.devices.soft import as_cuda as cuda_as_soft

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = Path(cuda_as_soft.__file__).parents[4]
# By program, the device that is named where cuda is not asked for: soft where the program can be told, else the CPU.
PLAIN = {
    **dict.fromkeys(("mnist", "mixed_precision", "char_gpt", "packed_rnn", "image_models", "checkpoints"), "soft"),
    "gan": "cpu",
}
LIBRARIES = {"lightning_loop": "lightning", "accelerate_loop": "accelerate", "hf_trainer": "transformers"}

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


def run(programs: Mapping[str, str]) -> dict[str, Any]:
    """What each program gives when it asks for cuda with the stand-in, and for its device without it."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "run.py"), *("=".join(pair) for pair in programs.items())],
        env={**os.environ, "PYTHONPATH": str(SOURCES), "NEAPTIDE_SOFT_SMS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def check_same(outcome: dict[str, Any], device: str) -> None:
    for ran in outcome.values():
        assert "error" not in ran, ran["error"]
    assert outcome["cuda"]["device"].startswith("cuda")
    assert outcome["named"]["device"].startswith(device)
    assert outcome["cuda"]["losses"] == outcome["named"]["losses"]
    assert len(outcome["cuda"]["losses"]) > 3


@pytest.fixture(scope="module")
def plain_programs() -> dict[str, Any]:
    return run(PLAIN)


@pytest.fixture(scope="module")
def library_programs() -> dict[str, Any]:
    return run({program: "cpu" for program, package in LIBRARIES.items() if importlib.util.find_spec(package)})


@pytest.mark.parametrize("program", PLAIN)
def test_a_program_for_cuda_gives_the_numbers_of_soft(program: str, plain_programs: dict[str, Any]) -> None:
    check_same(plain_programs[program], PLAIN[program])


@pytest.mark.parametrize("program", LIBRARIES)
def test_a_library_finds_cuda_and_gives_the_numbers_of_the_cpu(program: str, library_programs: dict[str, Any]) -> None:
    if program not in library_programs or not importlib.util.find_spec("accelerate"):
        pytest.skip(f"{LIBRARIES[program]} is not installed")
    check_same(library_programs[program], "cpu")
