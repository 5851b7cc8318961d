"""The board without torch: what a daemon sees and sets is what the process in the slot sees and does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from board_member import Member
from neaptide.devices.board import PERMIT_ALL, Board, BoardError, Region, Request, SlotState
from neaptide.devices.board.board import process_state
from neaptide.devices.board.figures import NO_CEILING, UNBOUNDED, ProcessState
from stand_in import wait_until

MIB = 1 << 20


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board.create(tmp_path / "board", 100 * MIB, Region("soft", 2))


def test_a_slot_shows_who_has_it_and_what_it_holds(board: Board) -> None:
    member = Member(board, "a job")
    assert member.take(30 * MIB)
    member.count(5, 3)
    (slot,) = board.snapshot().slots
    assert (slot.slot, slot.pid, slot.job, slot.held_bytes) == (member.slot, os.getpid(), "a job", 30 * MIB)
    assert (slot.permit, slot.inflight_cap, slot.ceiling_bytes) == (PERMIT_ALL, UNBOUNDED, NO_CEILING)
    seen = board.progress(member.slot)
    assert (seen.launched, seen.done, seen.held_bytes, seen.taken, seen.pid) == (5, 3, 30 * MIB, True, os.getpid())
    member.leave()
    assert board.snapshot().slots == ()
    assert not board.progress(0).taken
    assert board.snapshot().high_water_bytes == 30 * MIB
    board.reset_high_water()
    assert board.snapshot().high_water_bytes == 0


def test_an_iteration_waits_for_its_permit(board: Board) -> None:
    member = Member(board, "a")
    board.set_permit(member.slot, 1)
    assert member.wait_permit(member.begin_iteration(), 0)
    second = member.begin_iteration()
    assert not member.wait_permit(second, 0.01)
    board.set_permit(member.slot, 2)
    assert member.wait_permit(second, 0)


def test_capacity_and_ceiling_are_never_exceeded(board: Board) -> None:
    member = Member(board, "a")
    board.set_ceiling(member.slot, 20 * MIB)
    assert not member.take(30 * MIB)
    board.set_ceiling(member.slot, None)
    assert member.take(30 * MIB)
    board.set_capacity(40 * MIB)
    assert not member.take(20 * MIB)
    with pytest.raises(BoardError, match="gave back 41943040 bytes, but holds 31457280"):
        member.give(40 * MIB)


def test_a_request_stands_until_the_process_has_done_it(board: Board) -> None:
    member = Member(board, "a")
    board.set_request(member.slot, Request.EVICT)
    board.set_request(member.slot, Request.RESTORE)
    assert not member.finish_request(Request.EVICT)
    member.set_state(SlotState.RUNNING)
    assert member.finish_request(Request.RESTORE)
    seen = board.progress(member.slot)
    assert (seen.request, seen.state) == (Request.NONE, SlotState.RUNNING)


def test_the_memory_of_a_dead_process_is_given_back(board: Board) -> None:
    code = (
        "import os; from pathlib import Path; from neaptide.devices.board import Board;"
        "from board_member import Member;"
        f"b = Board.open(Path({str(board.path)!r})); m = Member(b, 'x'); m.take({60 * MIB}); os.kill(os.getpid(), 9)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    (slot,) = board.snapshot().slots
    assert slot.held_bytes == 60 * MIB
    assert process_state(slot.pid, slot.start_time) is ProcessState.GONE
    wait_until(lambda: board.reap() == 1)  # who reads the dead process's /proc entry keeps its lock for a moment
    assert board.snapshot().used_bytes == 0


def test_an_error_of_the_board_is_one_clear_line(board: Board, tmp_path: Path) -> None:
    with pytest.raises(BoardError, match="no process in slot 7"):
        board.set_permit(7, 1)
    with pytest.raises(BoardError, match="there is no slot 64"):
        board.progress(64)
    with pytest.raises(BoardError, match="cannot be opened: No such file"):
        Board.open(tmp_path / "none")
    (tmp_path / "text").write_text("something else entirely")
    with pytest.raises(BoardError, match="there is a file already"):
        Board.create(tmp_path / "text", MIB, Region("soft", 1))
    with pytest.raises(BoardError, match="not a board but another file"):
        Board.open(tmp_path / "text")


@pytest.mark.parametrize("damage", ["another layout", "cut short"])
def test_a_damaged_board_is_not_said_to_be_of_another_version(board: Board, tmp_path: Path, damage: str) -> None:
    board.close()
    path = tmp_path / "board"
    data = bytearray(path.read_bytes())
    if damage == "cut short":
        data = data[:-8]
    else:
        data[12] ^= 8  # the size of the layout follows magic and version
    path.write_bytes(data)
    with pytest.raises(BoardError, match="damaged, or made by another build of this version; end the jobs on it"):
        Board.open(path)


def test_a_board_that_jobs_use_is_never_made_anew(board: Board) -> None:
    member = Member(board, "a")
    assert member.take(30 * MIB)
    with pytest.raises(BoardError, match="there is a file already"):
        Board.create(board.path, 5 * MIB)
    assert Board.in_use(board.path)
    seen = Board.open(board.path).snapshot()
    assert (seen.capacity_bytes, seen.used_bytes) == (100 * MIB, 30 * MIB)
    member.leave()
    assert not Board.in_use(board.path)


def test_a_damaged_board_shows_only_values_that_exist(board: Board) -> None:
    member = Member(board, "a")
    size = board.path.stat().st_size
    for fill in (b"\xff", b"\x03", b"\x80", b"\x00"):
        with board.path.open("r+b") as file:
            file.write(fill * size)
        board.snapshot()
        board.read_counters()
        board.progress(member.slot)
        board.reap()
        member.mend()
    board.beat(1, 100 * MIB)
    assert (member.slot,) == tuple(slot.slot for slot in Board.open(board.path).snapshot().slots)
