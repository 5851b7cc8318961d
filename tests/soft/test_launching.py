"""Kernels are launched ahead, ordered by streams, and report their errors late."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.nn.functional as F

from neaptide.devices.soft import native
from soft.gate import hold, let_go

SOFT = "soft"


def test_launching_runs_ahead_of_the_kernels_also_in_the_backward_pass() -> None:
    weight = torch.randn(8, 8, device=SOFT, requires_grad=True)
    (weight @ weight).sum().backward()  # every signature has been seen
    torch.soft.synchronize()
    hold()
    (weight @ weight).sum().backward()
    assert torch.soft.in_flight() >= 4
    let_go()
    torch.soft.synchronize()
    assert torch.soft.in_flight() == 0


def test_a_value_error_is_raised_at_the_next_synchronization_and_once() -> None:
    table = torch.randn(10, 4, device=SOFT)
    F.embedding(torch.tensor([99], device=SOFT), table)
    with pytest.raises(IndexError, match="out of range"):
        torch.soft.synchronize()
    torch.soft.synchronize()
    assert (table * 0 + 1).sum().item() == 40


def test_a_value_error_of_a_known_signature_is_raised_late_too() -> None:
    table = torch.randn(10, 4, device=SOFT)
    F.embedding(torch.tensor([3], device=SOFT), table)
    torch.soft.synchronize()
    hold()
    F.embedding(torch.tensor([99], device=SOFT), table)
    let_go()
    with pytest.raises(IndexError):
        torch.soft.synchronize()


def test_a_shape_error_is_raised_at_launch() -> None:
    left, right = torch.randn(3, 4, device=SOFT), torch.randn(5, 6, device=SOFT)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        left @ right


def test_tensors_of_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.randn(3, device=SOFT) + torch.randn(3)


def test_a_host_scalar_is_captured_at_launch() -> None:
    scalar, ones = torch.tensor(2.0), torch.ones(3, device=SOFT)
    ones * scalar
    hold()
    product = ones * scalar
    scalar.fill_(7)
    let_go()
    assert product.tolist() == [2, 2, 2]


@pytest.mark.parametrize("cap", [1, 4, 64])
def test_no_more_kernels_are_in_flight_than_the_cap_allows(cap: int) -> None:
    torch.soft.set_in_flight_cap(cap)
    value, most = torch.zeros(1000, device=SOFT), 0
    for _ in range(300):
        value = value + 1
        most = max(most, torch.soft.in_flight())
    assert most <= cap
    assert value[0].item() == 300


def test_a_launch_waits_at_a_closed_gate_without_the_interpreter_lock() -> None:
    value = torch.ones(3, device=SOFT)
    value + 1
    torch.soft.synchronize()
    launched = native.launched()
    torch.soft.close_launch_gate()
    thread = threading.Thread(target=lambda: value.add_(1))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert native.launched() == launched
    torch.soft.open_launch_gate()
    thread.join()
    assert value.tolist() == [2, 2, 2]


def test_a_launch_waits_for_its_permit_only_when_one_is_needed() -> None:
    torch.soft.begin_iteration()
    assert torch.ones(2, device=SOFT).sum().item() == 2  # everything is permitted on a private board
    torch.soft.end_iteration()


def test_streams_run_side_by_side_and_events_order_them() -> None:
    first, second = torch.soft.Stream(), torch.soft.Stream()
    base = torch.arange(1000.0, device=SOFT)
    torch.soft.synchronize()
    expected = torch.arange(1000.0) * 2 + 1
    for round_number in range(100):
        with first:
            doubled = base * 2
            done = torch.soft.Event()
            done.record()
        second.wait_event(done)
        with second:
            result = doubled + 1
            doubled.record_stream(second)
        del doubled
        with first:
            torch.full((1000,), -1.0, device=SOFT)  # would land in the freed block if record_stream did nothing
        if round_number % 20 == 0:
            second.synchronize()
            assert result.cpu().equal(expected)
    torch.soft.synchronize()  # the streams still read `base`, which is the default stream's


def test_a_stream_that_waits_does_not_hold_up_another() -> None:
    waiting, free = torch.soft.Stream(), torch.soft.Stream()

    def is_overtaken(seconds: float) -> bool:
        with waiting:
            native.sleep_on_stream(seconds)
        with free:
            torch.ones(3, device=SOFT)
        free.synchronize()
        overtaken = not waiting.query()
        waiting.synchronize()
        return overtaken

    assert any(is_overtaken(seconds) for seconds in (0.2, 2, 20))  # on a busy machine the others take longer


def test_events_measure_time_on_the_stream() -> None:
    begin, end = torch.soft.Event(enable_timing=True), torch.soft.Event(enable_timing=True)
    begin.record()
    native.sleep_on_stream(0.02)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) >= 20


def test_the_accelerator_interface_finds_the_device() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device(SOFT)
    assert torch.accelerator.memory_allocated() == torch.soft.memory_allocated()
    assert torch.accelerator.current_stream().device.type == SOFT
    assert torch.soft.get_device_properties().multi_processor_count >= 1


def test_the_kernel_log_says_when_each_kernel_ran() -> None:
    value = torch.ones(1 << 18, device=SOFT)
    value + 1
    torch.soft.synchronize()
    with torch.soft.log_kernels():
        for _ in range(3):
            value = value + 1
        torch.soft.synchronize()
    log = torch.soft.kernel_log()
    assert [record.name for record in log] == ["aten::add.Tensor"] * 3
    assert len({record.signature for record in log}) == 1
    for record in log:
        assert record.launch_ns <= record.start_ns <= record.end_ns
    assert log[1].held_bytes >= log[1].needed_bytes == log[0].needed_bytes >= 2 << 20
    assert time.monotonic_ns() > log[-1].end_ns


def test_a_program_without_an_optimizer_does_not_load_the_compiler_to_know_shapes() -> None:
    code = (
        "import sys, torch, neaptide.devices.soft\n"
        "from torch import nn\n"
        "net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))\n"
        "with torch.no_grad():\n"
        "    for batch in (1, 2, 2, 7):\n"
        "        images = torch.randn(batch, 3, 8, 8)\n"
        "        assert torch.equal(net.cpu()(images), net.to('soft')(images.to('soft')).cpu())\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "torch.nn.functional.embedding(torch.tensor([99]).to('soft'), torch.randn(10, 4).to('soft'))\n"
        "try: torch.soft.synchronize()\n"
        "except IndexError: print('late')\n"
        "try: torch.randn(3, 4).to('soft') @ torch.randn(5, 6).to('soft')\n"
        "except RuntimeError as error: print(error)\n"
    )
    environment = {**os.environ, "NEAPTIDE_SOFT_SMS": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[0] == "late"
    assert "shapes cannot be multiplied" in run.stdout
