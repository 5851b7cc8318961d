"""Buffers of libraries are leased before they are there: the device's own count never exceeds the budget."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
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


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def do(process: subprocess.Popen[str], line: str) -> dict[str, Any]:
    say(process, line)
    return next_facts(process)


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_an_op_that_may_make_a_library_take_buffers_waits_for_room(hollow: Hollow) -> None:
    one, two = (hollow.start("buffers", HOLLOW_LIBRARY="30M") for _ in range(2))
    next_facts(one), next_facts(two)
    do(one, "hold 370")
    board = Board.open(hollow.folder / "board")
    assert board.snapshot().used_bytes > BUDGET_BYTES - 30 * MIB  # the buffers do not fit beside that
    say(two, "multiply")
    over = lambda: hollow.device_peak_bytes() > BUDGET_BYTES  # noqa: E731
    until(lambda: over() or any(slot.wanted_bytes for slot in board.snapshot().slots), "nobody waits")
    board.close()
    assert not over()
    kill(one)
    assert next_facts(two)["outside"] == CONTEXT_BYTES + 30 * MIB
    kill(two)
    assert hollow.device_peak_bytes() <= BUDGET_BYTES


@pytest.mark.parametrize("mib", [0, 30, 100])
def test_after_the_op_as_much_is_leased_as_was_taken(hollow: Hollow, mib: int) -> None:
    job = hollow.start("buffers", HOLLOW_LIBRARY=f"{mib}M")
    assert next_facts(job)["outside"] == CONTEXT_BYTES
    assert do(job, "multiply")["outside"] == CONTEXT_BYTES + mib * MIB
    kill(job)


def test_a_process_that_fits_only_without_room_for_buffers_gets_its_memory(hollow: Hollow) -> None:
    facts = hollow.run("tide", BUDGET_MIB="512", TIDE_MIB="440", TURNS="2")
    assert facts["wrong"] == 0
    assert hollow.device_peak_bytes() <= BUDGET_BYTES
