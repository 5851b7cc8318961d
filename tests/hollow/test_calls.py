"""What every call has: a count, a cost, and a way to fail that nobody overlooks."""

from __future__ import annotations

import time

import pytest

from hollow.board import Board, Tally
from hollow.conftest import MakeRemote
from hollow.remote import Remote, RemoteError

MiB = 1 << 20
ILLEGAL_ADDRESS, NOT_SUPPORTED, NOT_INITIALISED, TOO_OLD = 700, 801, 3, 35


def code_of(remote: Remote, statement: str) -> int | None:
    with pytest.raises(RemoteError) as caught:
        remote(statement)
    return caught.value.code


def test_calls_are_counted_by_process_and_for_all(process: MakeRemote, board: Board) -> None:
    first, second = process(), process()
    first("for _ in range(3): create(2 * MiB)")
    second("create(2 * MiB)")
    assert board.calls(first.pid)["cuMemCreate"].calls == 3
    assert board.calls()["cuMemCreate"].calls == 4
    second.kill()
    assert board.used() == 6 * MiB
    assert board.calls()["cuMemCreate"].calls == 4  # also those of processes that are gone


def test_a_call_costs_its_caller_time(process: MakeRemote, board: Board) -> None:
    remote = process(HOLLOW_COSTS="cuMemCreate=2000,cuMemUnmap=3000")
    remote("address = reserve(8 * MiB)")
    start = time.monotonic()
    remote("for i in range(4): map_memory(address + i * 2 * MiB, 2 * MiB, create(2 * MiB))")
    assert time.monotonic() - start >= 0.008
    assert board.calls(remote.pid)["cuMemCreate"] == Tally(4, 8_000_000)
    remote("unmap(address, 8 * MiB)")
    assert board.calls(remote.pid)["cuMemUnmap"] == Tally(1, 12_000_000)  # a cost for each handle


def test_costs_are_those_that_were_measured_on_a_gpu_unless_they_are_set(process: MakeRemote, board: Board) -> None:
    remote = process(HOLLOW_COSTS="")
    remote("unmap(mapped(create(2 * MiB), 2 * MiB), 2 * MiB)")
    calls = board.calls(remote.pid)
    charged = [calls[name].charged_ns for name in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap")]
    assert charged == [193_000, 1_500, 36_000, 26_000]


def test_a_bad_address_breaks_the_context_for_good(process: MakeRemote) -> None:
    remote = process()
    remote("address = malloc(4 * MiB)")
    remote("free(address)")
    remote("memset(address, 1, MiB)")  # asynchronous: the call itself succeeds
    assert code_of(remote, "finish()") == ILLEGAL_ADDRESS
    for statement in ("malloc(MiB)", "launch()", "create(2 * MiB)", "call('cudaDeviceSynchronize')"):
        assert code_of(remote, statement) == ILLEGAL_ADDRESS
    assert remote("code_of('cudaGetLastError')") == ILLEGAL_ADDRESS
    assert remote("code_of('cudaGetLastError')") == ILLEGAL_ADDRESS  # CUDA's sticky error is not forgotten


def test_work_queued_behind_a_bad_address_is_not_done(process: MakeRemote) -> None:
    remote = process()
    remote("bad, good, line, flag = malloc(2 * MiB), pinned(4), stream(), pinned(4)")
    remote("free(bad)")
    remote("wait_value(line, flag, 1); memset(bad, 1, MiB, line); write_value(line, good, 1)")
    remote("word(flag).value = 1")
    assert code_of(remote, "finish(line)") == ILLEGAL_ADDRESS
    assert remote("word(good).value") == 0


def test_memory_that_was_unmapped_too_early_is_a_bad_address(process: MakeRemote) -> None:
    remote = process()
    remote("line, flag, address = stream(), pinned(4), mapped(create(2 * MiB), 2 * MiB)")
    remote("wait_value(line, flag, 1); memset(address, 1, MiB, line)")
    remote("unmap(address, 2 * MiB)")
    remote("word(flag).value = 1")
    assert code_of(remote, "finish(line)") == ILLEGAL_ADDRESS


def test_another_process_goes_on_after_a_bad_address(process: MakeRemote) -> None:
    broken, other = process(), process()
    broken("address = malloc(MiB); free(address); memset(address, 1, MiB)")
    assert code_of(broken, "finish()") == ILLEGAL_ADDRESS
    other("malloc(MiB)")


def test_a_call_that_nobody_wrote_fails_with_its_name(process: MakeRemote, board: Board) -> None:
    remote = process()
    assert code_of(remote, "call('cuMulticastCreate', None, None)") == NOT_SUPPORTED
    assert board.calls()["unwritten:cuMulticastCreate"].calls == 1
    assert "hollow: cuMulticastCreate was called" in remote.end()


def test_a_child_forked_after_the_first_call_cannot_use_the_device(process: MakeRemote) -> None:
    remote = process()
    remote("malloc(MiB)")
    remote("import os; child = os.fork(); _ = child or os._exit(code_of('cudaMalloc', byref(c_void_p()), c_size_t(1)))")
    assert remote("os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])") == NOT_INITIALISED


def test_a_driver_that_is_too_old_is_told_as_such(process: MakeRemote) -> None:
    remote = process(HOLLOW_DRIVER="12020")
    assert code_of(remote, "call('cudaGetDeviceCount', byref(c_int()))") == TOO_OLD
