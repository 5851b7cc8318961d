"""What the daemon can ask of a process through the board."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from hangs import HANGS_SECONDS
from neaptide.devices.soft import native

EVICT, RESTORE, SUSPEND, RESUME = 1, 2, 3, 4
ALL = 0xFFFFFFFF
NO_CEILING = 2**64 - 1


@pytest.fixture(autouse=True)
def free_slot() -> Iterator[None]:
    yield
    native.lift_controls(native.slot())


def wait_until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + HANGS_SECONDS
    while not reached() and time.monotonic() < end:
        time.sleep(0.001)
    assert reached()


def gone() -> bool:
    """Whether the eviction is complete: the process counts as evicted before its bytes are moved."""
    return native.evicted() and torch.soft.memory_reserved() == 0


def launching(value: torch.Tensor) -> threading.Thread:
    """A thread that has a launch to make; the interpreter must stay free while it waits."""
    thread = threading.Thread(target=lambda: value.add_(1))
    thread.start()
    thread.join(0.05)
    return thread


@pytest.mark.parametrize(("out", "back"), [(EVICT, RESTORE), (SUSPEND, RESUME)])
def test_a_process_evicts_itself_when_asked_and_is_restored(out: int, back: int) -> None:
    value = torch.arange(1000.0, device="soft")
    torch.soft.synchronize()
    native.request(native.slot(), out)
    thread = launching(value)
    assert thread.is_alive()
    wait_until(gone)
    native.request(native.slot(), back)
    thread.join(HANGS_SECONDS)
    assert not thread.is_alive()
    assert value.cpu().equal(torch.arange(1000.0) + 1)


def test_a_process_that_launches_nothing_evicts_itself_when_asked() -> None:
    value = torch.arange(1000.0, device="soft")
    torch.soft.synchronize()
    native.request(native.slot(), EVICT)
    wait_until(gone)
    native.request(native.slot(), RESTORE)
    wait_until(lambda: not native.evicted())
    assert value.cpu().equal(torch.arange(1000.0))


def test_a_process_whose_launch_waits_for_memory_evicts_itself_again_and_again() -> None:
    value = torch.arange(1000.0, device="soft")
    torch.soft.synchronize()
    held = torch.soft.memory_reserved()
    native.set_ceiling(native.slot(), held)
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(torch.zeros(32 << 20, dtype=torch.uint8, device="soft")))
    thread.start()
    try:
        for _ in range(20):  # the launching thread and the attendant both see the request; either may answer it
            native.request(native.slot(), EVICT)
            wait_until(gone)
            native.request(native.slot(), RESTORE)
            wait_until(lambda: not native.evicted())
            time.sleep(0.002)
        assert thread.is_alive()
    finally:
        native.set_ceiling(native.slot(), NO_CEILING)
        thread.join(HANGS_SECONDS)
    assert made[0].sum().item() == 0
    assert value.cpu().equal(torch.arange(1000.0))


def test_the_heavy_gate_holds_wide_kernels_of_the_slot() -> None:
    code = (
        "import torch, neaptide.devices.soft as soft\n"
        "wide, narrow = torch.zeros(1 << 22, device='soft'), torch.zeros(4, device='soft')\n"
        "wide.add_(1), narrow.add_(1)\n"
        "torch.soft.synchronize()\n"
        "with torch.soft.log_kernels():\n"
        "    wide.add_(1), narrow.add_(1)\n"
        "assert [kernel.width for kernel in torch.soft.kernel_log()] == [2, 1]\n"
        "soft.native.set_heavy_open(soft.native.slot(), False)\n"
        "side = torch.soft.Stream()\n"
        "wide.add_(1)\n"
        "with side: narrow.add_(1)\n"
        "side.synchronize()\n"  # passes the closed gate
        "assert torch.soft.in_flight() == 1\n"
        "soft.native.set_heavy_open(soft.native.slot(), True)\n"
        "assert wide.sum().item() == 3 * (1 << 22)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "NEAPTIDE_SOFT_SMS": "2"}, check=True, timeout=HANGS_SECONDS
    )


def test_an_iteration_waits_for_its_permit() -> None:
    value = torch.zeros(3, device="soft")
    value.add_(1)
    torch.soft.synchronize()
    native.set_permit(native.slot(), 0)
    torch.soft.begin_iteration()
    thread = launching(value)
    assert thread.is_alive()
    native.set_permit(native.slot(), ALL)
    thread.join(HANGS_SECONDS)
    torch.soft.end_iteration()
    assert value.tolist() == [2, 2, 2]


def test_the_boards_cap_bounds_what_is_in_flight() -> None:
    value = torch.zeros(3, device="soft")
    native.set_slot_cap(native.slot(), 2)
    assert native.in_flight_cap() == 2
    for _ in range(20):
        value = value + 1
        assert torch.soft.in_flight() <= 2
    assert value[0].item() == 20


def test_a_program_that_never_waits_is_stopped_by_the_end_of_the_queue() -> None:
    value = torch.zeros(3, device="soft")
    native.close_execution_gate()
    thread = threading.Thread(target=lambda: [value.add_(1) for _ in range(2000)])
    thread.start()
    thread.join(1)
    assert thread.is_alive()
    assert torch.soft.in_flight() <= 1024
    native.open_execution_gate()
    thread.join(HANGS_SECONDS)
    assert value[0].item() == 2000


def test_on_a_device_of_one_sm_every_kernel_waits_before_a_closed_gate() -> None:
    value = torch.ones(4, device="soft")
    torch.soft.synchronize()
    native.set_heavy_open(native.slot(), False)
    thread = threading.Thread(target=lambda: value.add_(1).cpu())
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    native.set_heavy_open(native.slot(), True)
    thread.join(HANGS_SECONDS)
    assert value.tolist() == [2, 2, 2, 2]


def test_a_gate_that_is_open_until_a_time_closes_by_itself() -> None:
    value = torch.ones(1 << 20, device="soft")
    torch.soft.synchronize()
    native.set_gate(native.slot(), time.monotonic_ns() + 1, False)
    thread = threading.Thread(target=lambda: value.add_(1).cpu())
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    native.set_gate(native.slot(), time.monotonic_ns() + 3600 * 10**9, False)
    thread.join(HANGS_SECONDS)
    assert value[0].item() == 2


def test_a_kernel_whose_measured_time_is_longer_than_the_gate_stays_open_does_not_begin() -> None:
    slow, short = torch.ones(1 << 23, device="soft"), torch.ones(3, device="soft")
    for _ in range(3):
        slow.sin_()
    torch.soft.synchronize()
    # The gate stays open while the kernel waits, so only its own time holds it.
    native.set_gate(native.slot(), time.monotonic_ns() + 3600 * 10**9, False)
    with torch.soft.log_kernels():
        slow.sin_()
        short.add_(1)
        torch.soft.synchronize()
        took_ns = max(record.end_ns - record.start_ns for record in torch.soft.kernel_log())
    native.set_gate(native.slot(), time.monotonic_ns() + took_ns // 8, False)
    thread = threading.Thread(target=lambda: slow.sin_().cpu())
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    native.set_heavy_open(native.slot(), True)
    thread.join(HANGS_SECONDS)
    assert not thread.is_alive()


def test_kernels_of_a_job_with_a_share_use_no_more_sm_time_than_that_and_give_the_same_numbers() -> None:
    value = torch.ones(1 << 20, device="soft")
    expected = torch.ones(1 << 20)
    native.set_share(native.slot(), 100_000)
    with torch.soft.log_kernels():
        for _ in range(12):
            value.mul_(1.01)
        torch.soft.synchronize()
        records = [record for record in torch.soft.kernel_log() if "mul_" in record.name]
    for _ in range(12):
        expected.mul_(1.01)
    assert torch.equal(value.cpu(), expected)
    used_ns, began_ns = 0, records[0].start_ns
    for record in records:
        # One SM at a tenth of the time; the job may be ahead by a millisecond.
        assert used_ns <= 0.1 * (record.start_ns - began_ns + 1_100_000)
        used_ns += record.end_ns - record.start_ns
