"""The launch layer over a scripted device: gates, permits, caps, leases, requests and reports, in one thread."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neaptide.devices.board import Board, BoardError, Request, SlotState
from neaptide.devices.board.port import Allocation, Entry, Port, Service

MIB = 1 << 20
PLACE = (2**62).to_bytes(8, "big")


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    made = Board.create(tmp_path / "board", 16 * MIB)
    yield made
    made.close()


@pytest.fixture
def port(board: Board) -> Iterator[Port]:
    made = Port(board, "job")
    yield made
    made.check()
    made.leave()


def test_the_board_shows_leased_bytes_in_no_tensor_as_the_frameworks(board: Board, port: Port) -> None:
    assert port.allocate(MIB // 2)[0] is Allocation.GRANTED
    (slot,) = board.snapshot().slots
    assert (slot.held_bytes, slot.needed_bytes, slot.framework_bytes) == (2 * MIB, MIB // 2, 2 * MIB - MIB // 2)


def launch(port: Port, kernels: int = 1) -> None:
    assert port.try_enter() is Entry.ENTERED
    port.launched(kernels)
    port.exit()


def test_the_first_launch_of_an_iteration_waits_for_its_permit(board: Board, port: Port) -> None:
    board.set_permit(port.slot, 0)
    port.arm_iteration()
    assert port.try_enter() is Entry.PERMIT
    assert board.progress(port.slot).state is SlotState.WAITING_PERMIT
    board.set_permit(port.slot, 1)
    port.set_now(70)
    launch(port)
    assert port.figures().iteration_began_ns == 70
    facts = port.end_iteration()
    assert facts is not None
    assert (facts.index, facts.began_ns) == (0, 70)
    assert port.end_iteration() is None


def test_a_launch_after_an_iteration_was_disarmed_begins_none(board: Board, port: Port) -> None:
    board.set_permit(port.slot, 0)
    assert not port.disarm_iteration()
    port.arm_iteration()
    assert port.disarm_iteration()
    launch(port)
    assert port.end_iteration() is None
    port.arm_iteration()
    assert port.try_enter() is Entry.PERMIT
    assert not port.disarm_iteration()  # a launch waits for the permit


def test_launches_are_held_released_and_refused(port: Port) -> None:
    port.hold()
    assert port.try_enter() is Entry.HELD
    port.release()
    launch(port)
    port.refuse("too large")
    assert port.try_enter() is Entry.REFUSED


def test_the_cap_and_the_heavy_gate_hold_a_launch(board: Board, port: Port) -> None:
    board.set_inflight_cap(port.slot, 2)
    launch(port, 2)
    assert port.try_enter() is Entry.IN_FLIGHT_CAP
    port.passed()
    board.set_gate(port.slot, 0)
    assert port.try_enter(heavy=True) is Entry.HEAVY
    assert not port.may_run(heavy=True)
    launch(port)


def test_a_freed_block_returns_when_the_device_has_passed_its_use(board: Board, port: Port) -> None:
    outcome, address = port.allocate(6 * MIB)
    assert outcome is Allocation.GRANTED
    launch(port)
    port.free(address)
    assert board.snapshot().used_bytes == 6 * MIB
    port.passed()
    assert board.snapshot().used_bytes <= 2 * MIB  # one chunk is kept for the next block


def test_an_allocation_says_why_it_was_not_granted(board: Board, port: Port) -> None:
    assert port.allocate(17 * MIB)[0] is Allocation.OVER_CAPACITY
    other = Port(board, "other")
    assert other.allocate(10 * MIB)[0] is Allocation.GRANTED
    assert port.allocate(8 * MIB) == (Allocation.FULL, 8 * MIB)
    board.set_ceiling(port.slot, 2 * MIB)
    assert port.allocate(4 * MIB)[0] is Allocation.CEILING
    other.leave()


def test_the_board_keeps_the_room_that_an_older_iteration_expects(board: Board, port: Port) -> None:
    port.expect([12 * MIB, 4 * MIB])
    port.arm_iteration()
    launch(port)
    younger = Port(board, "younger")
    younger.arm_iteration()
    launch(younger)
    assert younger.allocate(6 * MIB)[0] is Allocation.RESERVED
    port.passed()
    assert younger.allocate(6 * MIB)[0] is Allocation.GRANTED
    younger.leave()


def test_a_job_that_found_no_memory_keeps_its_place_in_line(board: Board, port: Port) -> None:
    holder, later = Port(board, "holder"), Port(board, "later")
    _, address = holder.allocate(14 * MIB)
    assert port.allocate(8 * MIB)[0] is Allocation.FULL
    assert later.allocate(8 * MIB)[0] is Allocation.FULL
    holder.free(address)
    holder.leave()
    assert later.allocate(10 * MIB)[0] is Allocation.RESERVED
    port.withdraw()
    assert later.allocate(10 * MIB)[0] is Allocation.GRANTED
    later.leave()


def test_an_eviction_waits_for_the_device_and_a_restore_for_memory(board: Board, port: Port) -> None:
    assert port.allocate(10 * MIB)[0] is Allocation.GRANTED
    launch(port)
    board.set_request(port.slot, Request.EVICT)
    assert port.try_enter() is Entry.REQUEST
    assert port.serve() is Service.BUSY
    port.passed()
    assert port.serve() is Service.EVICTED
    assert board.progress(port.slot).state is SlotState.EVICTED
    assert board.snapshot().used_bytes == 0
    assert (port.try_enter(), port.allocate(MIB)[0]) == (Entry.HELD, Allocation.EVICTED)

    other = Port(board, "other")
    assert other.allocate(8 * MIB)[0] is Allocation.GRANTED
    board.set_request(port.slot, Request.RESTORE)
    assert port.serve() is Service.BUSY
    other.leave()
    assert port.serve() is Service.RESTORED
    assert port.figures().held_bytes == 10 * MIB
    launch(port)


def test_launches_that_the_client_holds_stay_held_after_a_restore(board: Board, port: Port) -> None:
    port.hold()
    for request, done in ((Request.SUSPEND, Service.EVICTED), (Request.RESUME, Service.RESTORED)):
        board.set_request(port.slot, request)
        assert port.serve() is done
    assert port.try_enter() is Entry.HELD


def test_reports_go_out_when_the_device_has_passed_the_work(port: Port) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    port.connect_reports(os.dup(ours.fileno()), 0)
    port.set_now(1_000)
    port.arm_iteration()
    launch(port)
    port.report_after(b"forward")
    launch(port)
    facts = port.end_iteration()
    assert facts is not None
    port.report_iteration(b"end" + PLACE, 3, facts.index, facts.began_ns)
    with pytest.raises(BlockingIOError):
        theirs.recv(64)
    port.passed()
    assert theirs.recv(64) == b"forward"
    port.set_now(5_000)
    port.passed()
    assert theirs.recv(64) == b"end" + (4_000).to_bytes(8, "big")
    assert port.figures().iterations_ended == 1
    # A new daemon that knows of no iteration is told of the last one again.
    port.connect_reports(os.dup(ours.fileno()), 0)
    assert theirs.recv(64) == b"end" + (4_000).to_bytes(8, "big")
    port.disconnect_reports()
    assert not port.report(b"nobody")
    ours.close()
    theirs.close()


def test_a_frame_without_a_place_for_the_duration_is_refused(port: Port) -> None:
    for frame, offset in ((b"end" + PLACE, 2), (PLACE, 1), (b"", 0), (b"end" + bytes(8), 3)):
        with pytest.raises(BoardError, match="no place for its duration"):
            port.report_iteration(frame, offset, 0, 0)


def silent_ns() -> int:
    return time.monotonic_ns() - 10_000_000_000


def test_a_launch_does_not_wait_for_a_silent_daemon(board: Board, port: Port) -> None:
    board.set_permit(port.slot, 0)
    board.beat(time.monotonic_ns(), 16 * MIB)
    port.arm_iteration()
    assert port.try_enter() is Entry.PERMIT
    board.beat(silent_ns(), 16 * MIB)
    launch(port)
    assert port.end_iteration() is not None
    board.beat(time.monotonic_ns(), 16 * MIB)
    port.arm_iteration()
    assert port.try_enter() is Entry.PERMIT
    board.set_permit(port.slot, 2)
    launch(port)


def test_an_evicted_job_returns_when_the_daemon_is_silent_and_there_is_room(board: Board, port: Port) -> None:
    assert port.allocate(6 * MIB)[0] is Allocation.GRANTED
    board.beat(time.monotonic_ns(), 16 * MIB)
    board.set_request(port.slot, Request.EVICT)
    assert port.serve() is Service.EVICTED
    other = Port(board, "other")
    assert other.allocate(12 * MIB)[0] is Allocation.GRANTED
    assert port.serve() is Service.NOTHING
    board.beat(silent_ns(), 16 * MIB)
    assert port.serve() is Service.BUSY  # the budget counts as always
    other.leave()
    assert port.serve() is Service.RESTORED
    assert board.snapshot().used_bytes == 6 * MIB
    board.set_request(port.slot, Request.EVICT)
    assert port.serve() is Service.NOTHING  # what a silent daemon had asked for is dropped
    assert board.progress(port.slot).request is Request.NONE
