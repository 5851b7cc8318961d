"""The hollow device's bytes: what takes them, who has them, and when they come back."""

from __future__ import annotations

import pytest

from hollow.board import Board
from hollow.conftest import MakeRemote
from hollow.remote import RemoteError

MiB = 1 << 20
CONTEXT = 16 * MiB  # as hollow.remote sets it
OUT_OF_MEMORY = 2


def test_a_context_takes_bytes_once_per_process(process: MakeRemote, board: Board) -> None:
    first, second = process(), process()
    assert board.used() == 0  # nobody has used the device
    first("free(0)")
    assert board.used() == CONTEXT
    first("free(0)")
    second("malloc(1)")
    assert board.used() == 2 * CONTEXT + 2 * MiB


def test_freed_memory_goes_back_and_the_peak_stays(process: MakeRemote, board: Board) -> None:
    remote = process()
    remote("address = malloc(100 * MiB)")
    remote("free(address)")
    assert board.used() == CONTEXT
    assert board.peak() == CONTEXT + 100 * MiB
    board.reset_peak()
    assert board.peak() == CONTEXT


def test_an_allocation_beyond_the_device_fails_and_the_process_goes_on(process: MakeRemote, board: Board) -> None:
    remote = process()
    with pytest.raises(RemoteError) as caught:
        remote("malloc(2 * GiB)")
    assert caught.value.code == OUT_OF_MEMORY
    remote("malloc(MiB)")
    assert board.used() == CONTEXT + 2 * MiB


def test_processes_take_from_the_same_device(process: MakeRemote) -> None:
    first, second = process(), process()
    first("address = malloc(600 * MiB)")
    with pytest.raises(RemoteError) as caught:
        second("malloc(600 * MiB)")
    assert caught.value.code == OUT_OF_MEMORY
    first("free(address)")
    second("malloc(600 * MiB)")


def test_a_context_that_does_not_fit_is_out_of_memory(process: MakeRemote) -> None:
    process()("malloc(1000 * MiB)")
    with pytest.raises(RemoteError) as caught:
        process()("free(0)")
    assert caught.value.code == OUT_OF_MEMORY


def test_free_memory_is_what_all_processes_leave(process: MakeRemote) -> None:
    first, second = process(), process()
    first("malloc(100 * MiB)")
    assert second("memory_info()") == [1024 * MiB - 2 * CONTEXT - 100 * MiB, 1024 * MiB]


def test_a_process_that_ends_gives_everything_back(process: MakeRemote, board: Board) -> None:
    remote = process()
    remote("malloc(100 * MiB)")
    remote.end()
    assert board.used() == 0


def test_a_killed_process_gives_everything_back(process: MakeRemote, board: Board) -> None:
    remote = process()
    remote("address = malloc(100 * MiB)")
    remote("page = mapped(create(64 * MiB), 64 * MiB)")
    assert board.used() == CONTEXT + 164 * MiB
    remote.kill()
    assert board.used() == 0


def test_bytes_of_a_killed_process_stay_until_its_context_is_torn_down(process: MakeRemote, board: Board) -> None:
    remote = process(HOLLOW_TEARDOWN_MS="3600000")
    remote("malloc(100 * MiB)")
    remote("create(64 * MiB)")
    remote.kill()
    assert board.used() == CONTEXT + 164 * MiB


def test_an_end_without_a_kill_needs_no_time_for_the_tear_down(process: MakeRemote, board: Board) -> None:
    remote = process(HOLLOW_TEARDOWN_MS="3600000")
    remote("malloc(100 * MiB)")
    remote.end()
    assert board.used() == 0


def test_a_new_peak_does_not_count_a_process_that_is_dead(process: MakeRemote, board: Board) -> None:
    victim, other = (process(HOLLOW_MEMORY="4G") for _ in range(2))
    other("free(0)")  # it has joined before, so nothing but the allocation itself looks for the dead
    victim("malloc(600 * MiB)")
    victim.kill()
    other("malloc(700 * MiB)")
    assert board.peak() == CONTEXT + 700 * MiB


def test_fills_and_copies_keep_data(process: MakeRemote) -> None:
    remote = process()
    remote("one, two = malloc(8 * MiB), malloc(8 * MiB)")
    remote("write(one, bytes(range(256)) * 16)")
    remote("memset(one + 100, 7, 3 * MiB)")
    remote("copy(two, one, 4 * MiB)")
    assert remote("read(two, 100) == bytes(range(100))")
    assert remote("read(two + 100, 3 * MiB) == bytes([7]) * 3 * MiB")
    assert remote("read(two + 100 + 3 * MiB, 5)") == "b'\\x00\\x00\\x00\\x00\\x00'"


def test_memory_that_was_zeroed_reads_as_zero(process: MakeRemote) -> None:
    remote = process()
    remote("address = malloc(8 * MiB)")
    remote("memset(address, 255, 8 * MiB)")
    remote("memset(address + 5, 0, 5 * MiB)")
    assert remote("read(address, 5) == bytes([255]) * 5")
    assert remote("read(address + 5, 5 * MiB) == bytes(5 * MiB)")
    assert remote("read(address + 5 + 5 * MiB, 5) == bytes([255]) * 5")


def test_devices_have_bytes_of_their_own(process: MakeRemote, board: Board) -> None:
    remote = process(HOLLOW_DEVICES="4")
    remote("call('cudaSetDevice', 2)")
    remote("malloc(100 * MiB)")
    assert [board.used(device) for device in range(4)] == [0, 0, CONTEXT + 100 * MiB, 0]


@pytest.mark.parametrize(
    ("visible", "devices"), [("", 0), ("2,0", 2), ("GPU-686f6c6c-6f77-2d67-7075-2d3030303031", 1), ("1,9,0", 1)]
)
def test_visible_devices_are_those_of_the_environment(process: MakeRemote, visible: str, devices: int) -> None:
    remote = process(HOLLOW_DEVICES="4", CUDA_VISIBLE_DEVICES=visible)
    remote("count = c_int()")
    remote("code_of('cudaGetDeviceCount', byref(count))")
    assert remote("count.value") == devices


def test_visible_devices_are_numbered_in_the_order_of_the_environment(process: MakeRemote, board: Board) -> None:
    process(HOLLOW_DEVICES="4", CUDA_VISIBLE_DEVICES="2,0")("malloc(100 * MiB)")
    assert [board.used(device) for device in range(4)] == [0, 0, CONTEXT + 100 * MiB, 0]
