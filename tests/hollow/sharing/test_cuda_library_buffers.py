"""Memory that nobody is asked for: buffers of libraries, and what a program takes from CUDA itself."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from campaigns import cuda_budget
from hollow.board import Board as Device
from hollow.sharing.cuda_daemon import MIB, CudaDaemon, until
from hollow.sharing.running import Hollow, kill, next_facts
from neaptide.devices import Board

STEPS = 12  # by then every library has taken its buffers
LIBRARIES_BYTES = 32 * MIB  # that are kept: half as much as the context
ALLOWANCE_BYTES = 64 * MIB + LIBRARIES_BYTES


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    return Hollow(tmp_path)


@pytest.mark.parametrize("jobs", [2, 4])
def test_buffers_that_libraries_take_in_the_middle_of_a_training_stay_within_the_budget(
    hollow: Hollow, jobs: int
) -> None:
    with CudaDaemon(hollow, cuda_budget.budget_of(jobs)) as daemon:
        hollow.environment["HOLLOW_LIBRARY"] = "4M"  # of which a job takes four: two libraries, on two threads
        for job in [daemon.begin(f"job{index}", "late") for index in range(jobs)]:
            job.has_said(STEPS)
        taken = [each.bytes for each in daemon.device.processes() if each.context_bytes]
        assert taken == [(64 + 4 * 4) * MIB] * jobs
        assert all(facts["wrong"] == 0 for facts in daemon.end_jobs())
        assert daemon.device.peak() <= daemon.budget_bytes


def test_what_a_program_takes_beyond_its_allowance_is_said_and_is_kept_for_its_next_run(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    device = Device(hollow.folder / "device")
    programs = [hollow.start("turns", BUDGET_MIB="512", TIDE_MIB="300")]

    def take() -> dict[str, Any]:
        programs.append(hollow.start("takes_outside", MIB="100"))
        return next_facts(programs[-1])

    try:
        next_facts(programs[0])
        _turn(programs[0])  # leaves the device full of pages that nobody owns
        assert take()["before"] == ALLOWANCE_BYTES
        assert 512 * MIB < device.peak() <= (512 + 68) * MIB
        until(lambda: device.used() <= 512 * MIB, "pages to make way")
        err = programs.pop().communicate(input="")[1]
        assert err.count("68 MiB more than was kept for it") == 1, err
        _turn(programs[0])
        device.reset_peak()
        assert take()["before"] == (64 + 100) * MIB + LIBRARIES_BYTES
        assert "more than was kept" not in programs.pop().communicate(input="")[1]
        assert device.peak() <= 512 * MIB
    finally:
        for program in programs:
            kill(program)
        device.close()


def test_a_job_that_fits_only_without_its_allowance_has_it_back_in_a_larger_budget(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    job = hollow.start("turns", BUDGET_MIB="512", TIDE_MIB="440")
    try:
        assert next_facts(job)["outside_bytes"] == ALLOWANCE_BYTES
        assert _turn(job)["outside_bytes"] == 64 * MIB
        board = Board.open(hollow.folder / "board")
        board.set_capacity(600 * MIB)
        board.close()
        until(lambda: bool(_turn(job)["outside_bytes"] == ALLOWANCE_BYTES), "the allowance to be leased again")
    finally:
        kill(job)


def _turn(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return next_facts(process)
