"""Streams and events: work is asynchronous, ordered, bounded, and its time is the device's."""

from __future__ import annotations

import time

import pytest

from hollow.board import Board
from hollow.conftest import MakeRemote
from hollow.remote import RemoteError

NOT_READY, INVALID_HANDLE, CAPTURE_UNSUPPORTED = 600, 400, 900
LONG = "3600000000"  # microseconds: a kernel that does not end while a test runs


def test_a_launch_returns_before_its_kernel_ends(process: MakeRemote) -> None:
    remote = process(HOLLOW_KERNEL_US=LONG)
    remote("launch()")
    assert not remote("is_idle(0)")


def test_a_stream_does_its_work_in_order(process: MakeRemote) -> None:
    remote = process(HOLLOW_KERNEL_US="100")
    remote("address = malloc(4 * MiB)")
    remote("line = stream()")
    remote("for value in range(1, 100): memset(address, value, MiB, line); launch(line)")
    remote("copy(address + 2 * MiB, address, MiB, line)")
    remote("finish(line)")
    assert remote("read(address + 2 * MiB, MiB) == bytes([99]) * MiB")


def test_streams_do_not_wait_for_each_other_by_themselves(process: MakeRemote) -> None:
    remote = process()
    remote("stuck, line, flag = stream(), stream(), pinned(4)")
    remote("wait_value(stuck, flag, 1)")
    remote("launch(line)")
    remote("finish(line)")
    assert not remote("is_idle(stuck)")
    remote("word(flag).value = 1")
    remote("finish(stuck)")


def test_a_stream_waits_for_an_event_of_another(process: MakeRemote) -> None:
    remote = process()
    remote("first, second, flag, out = stream(), stream(), pinned(4), pinned(4)")
    remote("wait_value(first, flag, 1)")
    remote("marker = event()")
    remote("record(marker, first)")
    remote("wait(second, marker)")
    remote("write_value(second, out, 5)")
    assert not remote("is_done(marker)")
    assert remote("word(out).value") == 0
    remote("word(flag).value = 1")
    remote("finish(second)")
    assert remote("is_done(marker)")
    assert remote("word(out).value") == 5


def test_a_value_is_written_after_the_work_before_it(process: MakeRemote) -> None:
    remote = process()
    remote("line, flag, out = stream(), pinned(4), pinned(8)")
    remote("wait_value(line, flag, 3)")
    remote("write_value(line, out, 7)")
    remote("word(flag).value = 2")
    assert remote("word(out).value") == 0
    remote("word(flag).value = 4")  # greater or equal lets it pass
    remote("finish(line)")
    assert remote("word(out).value") == 7


def test_host_functions_run_in_the_streams_order(process: MakeRemote) -> None:
    remote = process()
    remote("seen, line, flag = [], stream(), pinned(4)")
    remote("functions = [HOST_FUNCTION(lambda _, i=i: seen.append(i)) for i in range(3)]")
    remote("wait_value(line, flag, 1)")
    remote("for function in functions: call('cudaLaunchHostFunc', pointer(line), function, None)")
    assert remote("seen") == []
    remote("word(flag).value = 1")
    remote("finish(line)")
    assert remote("seen") == [0, 1, 2]


def test_a_full_queue_blocks_the_launch(process: MakeRemote) -> None:
    remote = process(HOLLOW_DEPTH="8")
    remote("line, flag = stream(), pinned(4)")
    remote("wait_value(line, flag, 1)")
    remote("for _ in range(7): launch(line)")
    remote("import threading; blocked = threading.Thread(target=launch, args=(line,)); blocked.start()")
    remote("blocked.join(0.2)")
    assert remote("blocked.is_alive()")  # the eighth launch behind a stream that stands still
    remote("word(flag).value = 1")
    remote("blocked.join()")
    remote("finish(line)")


def test_the_queue_holds_1024_launches_by_default(process: MakeRemote) -> None:
    remote = process()
    remote("line, flag = stream(), pinned(4)")
    remote("wait_value(line, flag, 1)")
    remote("for _ in range(1023): launch(line)")
    remote("word(flag).value = 1")
    remote("finish(line)")


def test_time_between_events_is_the_kernels_time(process: MakeRemote) -> None:
    remote = process(HOLLOW_KERNEL_US="500")
    remote("start, end, line, flag = event(), event(), stream(), pinned(4)")
    remote("launch(line); finish(line)")
    remote("wait_value(line, flag, 1)")  # everything is queued before the first kernel starts
    remote("record(start, line)")
    remote("for _ in range(20): launch(line)")
    remote("record(end, line)")
    remote("word(flag).value = 1")
    remote("finish(line)")
    assert remote("milliseconds(start, end)") == pytest.approx(10, rel=1e-3)


def test_an_event_without_timing_has_no_time(process: MakeRemote) -> None:
    remote = process()
    remote("start, end = event(NO_TIMING), event()")
    remote("record(start); record(end); finish()")
    with pytest.raises(RemoteError) as caught:
        remote("milliseconds(start, end)")
    assert caught.value.code == INVALID_HANDLE


def test_two_processes_share_the_devices_time(process: MakeRemote, board: Board) -> None:
    first, second = (process(HOLLOW_KERNEL_US="2000") for _ in range(2))
    for remote in (first, second):
        remote("line, flag = stream(), pinned(4)")
        remote("wait_value(line, flag, 1)")
        remote("for _ in range(200): launch(line)")
    start = time.monotonic()
    for remote in (first, second):
        remote("word(flag).value = 1")
    for remote in (first, second):
        remote("finish(line)")
    assert time.monotonic() - start >= 0.8  # 2 x 200 kernels of 2 ms, one at a time
    busy = {use.pid: use.busy_ns for use in board.processes()}
    assert busy[first.pid] == busy[second.pid] == 200 * 2_000_000


def test_a_blocking_stream_keeps_order_with_the_default_stream(process: MakeRemote) -> None:
    remote = process()
    remote("line, flag, out = stream(0), pinned(4), pinned(4)")
    remote("wait_value(line, flag, 1)")
    remote("write_value(0, out, 9)")
    assert remote("word(out).value") == 0
    remote("word(flag).value = 1")
    remote("finish(0)")
    assert remote("word(out).value") == 9


def test_a_copy_between_pinned_and_device_memory_is_asynchronous(process: MakeRemote) -> None:
    remote = process()
    remote("line, flag, host, address = stream(), pinned(4), pinned(MiB), malloc(MiB)")
    remote("wait_value(line, flag, 1)")
    remote("copy(address, host, MiB, line)")
    assert not remote("is_idle(line)")
    remote("word(host).value = 77")  # read when the stream comes to it
    remote("word(flag).value = 1")
    remote("finish(line)")
    assert remote("read(address, 1)") == repr(bytes([77]))


def test_a_graph_runs_what_was_captured(process: MakeRemote) -> None:
    remote = process()
    remote("line, address, graph, runnable = stream(), malloc(MiB), c_void_p(), c_void_p()")
    remote("call('cudaStreamBeginCapture', pointer(line), 0)")
    remote("memset(address, 5, MiB, line)")
    with pytest.raises(RemoteError) as caught:
        remote("finish(line)")
    assert caught.value.code == CAPTURE_UNSUPPORTED
    remote("call('cudaStreamEndCapture', pointer(line), byref(graph))")
    assert remote("read(address, 1)") == repr(bytes([0]))  # captured, not run
    remote("call('cudaGraphInstantiateWithFlags', byref(runnable), graph, c_uint64(0))")
    remote("call('cudaGraphLaunch', runnable, pointer(line))")
    remote("finish(line)")
    assert remote("read(address, 1)") == repr(bytes([5]))


def test_a_stream_that_was_destroyed_is_refused(process: MakeRemote) -> None:
    remote = process()
    remote("line = stream()")
    remote("call('cudaStreamDestroy', pointer(line))")
    with pytest.raises(RemoteError) as caught:
        remote("launch(line)")
    assert caught.value.code == INVALID_HANDLE
