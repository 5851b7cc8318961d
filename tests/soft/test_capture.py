"""A trace measured on the device agrees with the device's own log of its kernels, byte by byte."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from neaptide import measure
from neaptide.capture.script import profile_script
from neaptide.capture.timing.device_times import LONGEST_GAP_NS, Aside, KernelRun, times_from
from neaptide.models import build


def _rise_of(step: Callable[[], object]) -> int:
    """How far the most that the device needed in a step was above its last kernel's level."""
    with torch.soft.log_kernels():
        step()
    kernels = sorted(torch.soft.kernel_log(), key=lambda kernel: kernel.launch_ns)
    return max(kernel.needed_bytes + kernel.scratch_bytes for kernel in kernels) - kernels[-1].needed_bytes


@pytest.mark.parametrize(
    "name", ["alexnet", "bert-base", "gnmt", "gpt2", "mobilenet-v2", "resnet18", "rhn", "rnnlm-small", "unet", "vae"]
)
def test_a_measured_trace_has_the_bytes_that_the_device_needed(name: str) -> None:
    work = build(name, batch=2, scale="tiny", device="soft")
    trace = measure(work.step, device="soft")
    gc.collect()
    needed = min(_rise_of(work.step) for _ in range(3))  # what other tests left may be freed during a step
    # Both are counted from the last kernel's level, because the remains of the previous step differ. The device rounds
    # each block up to 512 bytes.
    above = trace.peak_bytes - int(trace.held_bytes[-1])
    rounding = 512 * len(trace.tensors)
    assert above == pytest.approx(needed, abs=0.001 * trace.peak_bytes + rounding)


def test_a_measured_trace_has_the_devices_times_and_widths() -> None:
    value = torch.ones(1 << 20, device="soft")

    def step() -> None:
        value.exp_()
        torch.ones(4, device="soft").add_(1)

    trace = measure(step, device="soft")
    assert trace.asynchronous
    assert list(trace.ops.name) == ["aten::exp_", "aten::ones", "aten::add_"]
    assert trace.ops.seconds[0] > trace.ops.seconds[2] > 0
    assert (trace.ops.fill > 0).all()
    assert (trace.ops.fill <= 1).all()


class _Kernel:
    def __init__(self, name: str, launch_ns: int, start_ns: int, end_ns: int, width: int = 1) -> None:
        self.name, self.launch_ns, self.start_ns, self.end_ns, self.width = name, launch_ns, start_ns, end_ns, width
        self.scratch_bytes = self.stream = 0


def test_kernels_that_only_one_run_has_do_not_shift_the_other_kernels() -> None:
    recorded = ["aten::mm", "aten::clone", "aten::add"]
    run = KernelRun([
        _Kernel("aten::mm", 0, 10, 110),
        _Kernel("aten::add_.Tensor", 50, 110, 140, width=2),
        _Kernel("aten::zero_", 60, 140, 145),
    ])  # fmt: skip
    found = times_from(recorded, [0, 1, 2], 3, [run], sms=2)
    assert found is not None
    assert np.allclose(found.seconds, [110e-9, 0, 35e-9])  # the extra kernel belongs to the op before it
    assert np.allclose(found.host_seconds, [0, 0, 60e-9])
    assert found.fill[0] == 0.5
    assert found.fill[2] > 0.9


def test_an_op_begins_when_the_device_is_free_for_it() -> None:
    late = LONGEST_GAP_NS
    run = KernelRun([
        _Kernel("aten::mm", 0, 0, 100),
        _Kernel("aten::add", 10, 120, 150),  # 20 ns between two kernels
        _Kernel("aten::mul", 20, 150 + late, 170 + late),  # the op waited for something
    ])  # fmt: skip
    found = times_from(run.names, [0, 1, 2], 3, [run], sms=1)
    assert found is not None
    assert np.allclose(found.seconds, [100e-9, 50e-9, 20e-9])


def test_time_that_the_host_waits_for_the_device_is_not_host_time() -> None:
    run = KernelRun([
        _Kernel("aten::mm", 0, 0, 800),
        _Kernel("aten::mm", 10, 800, 1000),
        _Kernel("aten::copy_", 1040, 1040, 1050),  # the host had to wait until its memory could be read
        _Kernel("aten::add", 1100, 1100, 1110),  # the device waited for the host
    ])  # fmt: skip
    found = times_from(run.names, [0, 1, 2, 3], 4, [run], sms=1)
    assert found is not None
    assert np.allclose(found.host_seconds, [0, 10e-9, 40e-9, 60e-9])


def test_work_that_is_not_the_programs_is_not_counted() -> None:
    copy = _Kernel("copy", 110, 110, 190)
    copy.stream = 7
    run = KernelRun([_Kernel("aten::mm", 1, 1, 100), copy, _Kernel("aten::add", 160, 200, 230)])
    aside = Aside(streams=(7,), ends_ns=[150], total_ns=[0, 45])  # the host was busy with the copy from 105 to 150
    found = times_from(["aten::mm", "aten::add"], [0, 1], 2, [run.without(aside)], sms=1)
    assert found is not None
    assert np.allclose(found.seconds, [99e-9, 40e-9])  # it could start when the copy had ended
    assert np.allclose(found.host_seconds, [0, (159 - 45) * 1e-9])


def test_the_times_of_ops_add_up_to_the_time_of_a_disturbed_run() -> None:
    def run(*lengths: int) -> KernelRun:
        ends = np.cumsum(lengths).tolist()
        return KernelRun(
            [_Kernel(f"op{i}", 0, end - n, end) for i, (n, end) in enumerate(zip(lengths, ends, strict=True))]
        )

    runs = [run(100, 10, 10), run(10, 100, 10), run(10, 10, 100)]
    found = times_from(runs[0].names, [0, 1, 2], 3, runs, sms=1)
    assert found is not None
    assert np.allclose(found.seconds, 40e-9)


def test_a_log_that_lost_kernels_is_not_used() -> None:
    assert times_from(["aten::mm"], [0], 1, [KernelRun([_Kernel("aten::mm", 0, 1, 2)], complete=False)], sms=2) is None


def test_a_script_is_watched_on_the_device_of_its_model(tmp_path: Path) -> None:
    script = tmp_path / "on_soft.py"
    script.write_text("""
import torch, neaptide.devices.soft
model = torch.nn.Linear(64, 64).to("soft")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(8, 64, device="soft")).sum().backward()
    optimizer.step()
""")
    run = profile_script(script)
    assert run.error is None
    assert run.trace is not None
    assert run.trace.device.startswith("soft")
    assert run.trace.persistent_bytes == 4 * (64 * 64 + 64)  # the gradients are dropped and made anew
