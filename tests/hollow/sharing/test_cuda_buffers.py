"""Buffers of libraries are leased before they are there: the device's own count never exceeds the budget."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hollow.sharing.running import Hollow, kill, next_facts
from neaptide.devices import Board

MIB = 1 << 20
BUDGET_BYTES = 512 * MIB
CONTEXT_BYTES = 64 * MIB


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    made = Hollow(tmp_path)
    made.make_board(BUDGET_BYTES)
    return made


@contextmanager
def job(hollow: Hollow, library_mib: int) -> Iterator[subprocess.Popen[str]]:
    process = hollow.start("buffers", HOLLOW_LIBRARY=f"{library_mib}M")
    try:
        assert next_facts(process)["outside"] == CONTEXT_BYTES
        yield process
    finally:
        kill(process)


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def do(process: subprocess.Popen[str], line: str) -> dict[str, Any]:
    say(process, line)
    return next_facts(process)


def test_an_op_that_may_make_a_library_take_buffers_waits_for_room(hollow: Hollow) -> None:
    board = Board.open(hollow.folder / "board")
    with closing(board), job(hollow, 30) as two:
        with job(hollow, 30) as one:
            do(one, "hold 370")
            assert board.snapshot().used_bytes > BUDGET_BYTES - 30 * MIB  # the buffers do not fit beside that
            say(two, "multiply")
            deadline = time.monotonic() + 60
            while not any(slot.wanted_bytes for slot in board.snapshot().slots):
                assert hollow.device_peak_bytes() <= BUDGET_BYTES
                assert time.monotonic() < deadline, "nobody waits"
                time.sleep(0.01)
        assert next_facts(two)["outside"] == CONTEXT_BYTES + 30 * MIB
    assert hollow.device_peak_bytes() <= BUDGET_BYTES


@pytest.mark.parametrize("mib", [0, 30, 100])  # the last is more than is expected
def test_after_the_op_as_much_is_leased_as_was_taken(hollow: Hollow, mib: int) -> None:
    with job(hollow, mib) as one:
        assert do(one, "multiply")["outside"] == CONTEXT_BYTES + mib * MIB


def test_a_process_that_fits_only_without_room_for_buffers_gets_its_memory(hollow: Hollow) -> None:
    facts = hollow.run("tide", BUDGET_MIB="512", TIDE_MIB="440", TURNS="2")
    assert facts["wrong"] == 0
    assert hollow.device_peak_bytes() <= BUDGET_BYTES
