"""What a controller can ask of a process through the board."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from neaptide.devices.soft import native

EVICT, RESTORE, SUSPEND, RESUME = 1, 2, 3, 4
ALL = 0xFFFFFFFF
NO_CEILING = 2**64 - 1


@pytest.fixture(autouse=True)
def free_slot() -> Iterator[None]:
    yield
    native.set_permit(native.slot(), ALL)
    native.set_heavy_open(native.slot(), True)
    native.set_slot_cap(native.slot(), ALL)


def wait_until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
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
    thread.join(10)
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
        thread.join(10)
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
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "NEAPTIDE_SOFT_SMS": "2"}, check=True, timeout=120)


def test_an_iteration_waits_for_its_permit() -> None:
    value = torch.zeros(3, device="soft")
    value.add_(1)
    torch.soft.synchronize()
    native.set_permit(native.slot(), 0)
    torch.soft.begin_iteration()
    thread = launching(value)
    assert thread.is_alive()
    native.set_permit(native.slot(), ALL)
    thread.join(10)
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
    thread.join(10)
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
    thread.join(10)
    assert value.tolist() == [2, 2, 2, 2]
