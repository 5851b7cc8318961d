"""Kernels of a process that has bytes over the link."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from hangs import HANGS_SECONDS
from neaptide.devices.soft import native

MIB = 1 << 20
NO_LIMIT = 2**64 - 1

PAYS = """
import time, torch, neaptide.devices.soft
from neaptide.devices.soft import native
base = torch.zeros(8 << 20, dtype=torch.uint8, device="soft")
native.set_limit(native.slot(), native.memory()["held"])
block = torch.empty(24 << 20, dtype=torch.uint8, device="soft")
memory = native.memory()
assert memory["over"] == 24 << 20, memory
block.fill_(1), torch.soft.synchronize()
began = time.monotonic()
block.fill_(2), torch.soft.synchronize()
took = time.monotonic() - began
native.set_limit(native.slot(), 2**64 - 1)
native.arm_iteration()
assert block.sum().item() == 2 * (24 << 20)
assert native.memory()["over"] == 0, native.memory()
native.check_memory()
print(took, memory["over"] / (memory["over"] + memory["held"]))
"""


def test_a_kernel_takes_longer_by_its_share_of_what_is_over_the_link() -> None:
    """A lower bound: on a busy machine it may take longer still."""
    done = subprocess.run(
        [sys.executable, "-c", PAYS],
        env={**os.environ, "NEAPTIDE_SOFT_LINK": "100MB/s"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    took, share = map(float, done.stdout.split())
    assert took >= share * 24 * MIB / 100e6


@pytest.mark.parametrize("link", ["fast", "0", "-1GB"])
def test_a_link_that_is_no_bandwidth_is_refused(link: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import torch, neaptide.devices.soft\ntorch.zeros(1, device='soft')"],
        env={**os.environ, "NEAPTIDE_SOFT_LINK": link},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
    )
    assert done.returncode != 0
    assert "NEAPTIDE_SOFT_LINK: " in done.stderr


def test_training_under_a_limit_gives_the_numbers_of_the_cpu() -> None:
    def train(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(4096, 64).to(device)).square().mean().backward()
            optimizer.step()
        return torch.cat([parameter.detach().cpu().flatten() for parameter in model.parameters()])

    torch.soft.empty_cache()
    native.set_limit(native.slot(), native.memory()["held"] + 2 * MIB)
    try:
        native.reset_peaks()
        numbers = train("soft")
        assert native.memory()["over_peak"] > 0
        native.check_memory()
        torch.soft.evict()
        torch.soft.restore()
    finally:
        native.lift_controls(native.slot())
    assert numbers.equal(train("cpu"))
