"""Pages of device memory outlive their users: jobs hand them to each other, and the device's own count says how."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hollow.board import Board as Device
from hollow.sharing.running import Hollow, facts_of, kill, next_facts
from neaptide.devices import Board
from neaptide.devices.cuda.page_table import PageTable

MIB = 1 << 20
KILLS = int(os.environ.get("NEAPTIDE_KILLS", "30"))
PAGE_CALLS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemImportFromShareableHandle")
TIDES = {"BUDGET_MIB": "512", "TIDE_MIB": "300"}


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    return Hollow(tmp_path)


@contextmanager
def device_of(hollow: Hollow) -> Iterator[Device]:
    device = Device(hollow.folder / "device")
    try:
        yield device
    finally:
        device.close()


@contextmanager
def page_table_of(hollow: Hollow) -> Iterator[tuple[PageTable, Board]]:
    board = Board.open(hollow.folder / "board")
    try:
        yield PageTable(board), board
    finally:
        board.close()


@contextmanager
def job(hollow: Hollow, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = hollow.start("turns", **(TIDES | environment))
    try:
        next_facts(process)
        yield process
    finally:
        kill(process)


def turn(process: subprocess.Popen[str], value: str = "") -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write(f"{value}\n")
    process.stdin.flush()
    return next_facts(process)


def page_calls(hollow: Hollow) -> dict[str, int]:
    with device_of(hollow) as device:
        seen = device.calls()
    return {name: seen[name].calls for name in PAGE_CALLS if name in seen}


def wait_for(what: str, seen: Any) -> None:
    deadline = time.monotonic() + 120
    while not seen():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_jobs_that_take_turns_with_the_same_pages_make_no_driver_call(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    with job(hollow) as one, job(hollow) as two:
        for _ in range(2):
            turn(one, "7"), turn(two, "8")
        before = page_calls(hollow)
        assert before["cuMemCreate"] >= 150  # of 2 MiB
        facts = [(turn(one, "7"), turn(two, "8")) for _ in range(5)]
        assert page_calls(hollow) == before
        assert facts[-1][0]["reused"] - facts[0][0]["reused"] == 4 * 150
        with page_table_of(hollow) as (table, _):
            counts = table.counts()
        assert counts.there >= 150
        assert counts.there - counts.free <= 2  # each job keeps one chunk at hand
    assert hollow.device_peak_bytes() <= 512 * MIB


def test_the_calls_that_a_job_counts_are_those_that_the_device_counts(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    with job(hollow) as one:
        facts = turn(one, "7")
        seen = page_calls(hollow)
        assert facts["made"] == seen["cuMemCreate"]
        assert facts["imported"] == seen["cuMemImportFromShareableHandle"]
        assert (facts["mapped"], facts["unmapped"]) == (seen["cuMemMap"], seen.get("cuMemUnmap", 0))


def test_isolated_jobs_find_zeros_and_keep_nothing_mapped(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB, isolate=True)
    with job(hollow) as one, job(hollow) as two:
        assert turn(one, "7")["found"] == 0
        facts = turn(two, "8")
        assert facts["found"] == 0
        assert turn(one)["found"] == 0
        assert facts["reused"] == 0
        assert facts["mapped"] - facts["unmapped"] == facts["owned_bytes"] // (2 * MIB)


def test_without_isolation_a_job_may_find_what_another_left(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    with job(hollow) as one, job(hollow) as two:
        turn(one, "7")
        assert turn(two)["found"] == 7  # contents are undefined, as those of torch.empty are


def test_pages_that_nobody_owns_make_room_for_a_new_context(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    with job(hollow, TIDE_MIB="440") as one:
        turn(one)
        with job(hollow, TIDE_MIB="20") as two:
            turn(two)
    assert hollow.device_peak_bytes() <= 512 * MIB


def test_after_a_budget_cut_the_device_holds_no_more_than_the_new_budget(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    with job(hollow) as one, page_table_of(hollow) as (_, board), device_of(hollow) as device:
        turn(one)
        assert device.used() > 300 * MIB
        board.set_capacity(200 * MIB)
        wait_for("the pages stay", lambda: device.used() <= 200 * MIB)


def test_the_keepers_death_takes_nothing_from_jobs(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    holder = hollow.start("holder", BUDGET_MIB="512", TIDE_MIB="100")
    next_facts(holder)
    with page_table_of(hollow) as (table, _), job(hollow, TIDE_MIB="200") as one:
        turn(one)
        keeper = table.keeper_pid
        os.kill(keeper, signal.SIGKILL)
        wait_for("no new keeper came", lambda: table.keeper_pid != keeper)
        turn(one), turn(one)
    assert holder.communicate(input="")[0] == ""
    assert holder.returncode == 0
    assert hollow.device_peak_bytes() <= 512 * MIB


def test_a_keeper_begins_when_the_memory_of_the_last_one_is_gone(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    facts = hollow.run("successor", HOLLOW_TEARDOWN_MS="300")
    assert facts == {"before": 16 * MIB, "after": 0, "followed": True}


def test_when_the_last_job_has_ended_nothing_is_left_on_the_device(hollow: Hollow) -> None:
    hollow.make_board(512 * MIB)
    assert hollow.run("tide", TURNS="3", **TIDES)["wrong"] == 0
    with device_of(hollow) as device:
        wait_for("memory is left", lambda: device.used() == 0)
    wait_for("a socket is left", lambda: not list(hollow.folder.glob("board.pages*")))


def test_outside_memory_is_counted_right_where_nvml_charges_every_holder_of_a_page(hollow: Hollow) -> None:
    facts = hollow.run("outside", HOLLOW_CHARGE="holders")
    assert (facts["allowance"], facts["taken"], facts["back"]) == (96 * MIB, 100 * MIB, 0)


@pytest.mark.parametrize("victim", ["job", "keeper"])
def test_kills_at_random_points_lose_no_byte_and_no_survivor(hollow: Hollow, victim: str) -> None:
    hollow.make_board(512 * MIB)
    sizes = {"TIDE_MIB": "200", "JOBS": "3", "KILLS": str(KILLS), "VICTIM": victim, "HOLLOW_TEARDOWN_MS": "20"}
    facts = facts_of(hollow.start("campaign", **sizes))
    assert facts["codes"] == [0, 0, 0]
    assert facts["leased_bytes"] == 0
    with device_of(hollow) as device:
        wait_for("memory is left", lambda: device.used() == 0)
    assert hollow.device_peak_bytes() <= 512 * MIB
