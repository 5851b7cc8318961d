"""A job's numbers are the same whether or not it is measured, gated and watched."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from neaptide.capture.boundaries import Boundaries
from neaptide.core.traces.trace import Phase, Trace

with patch.dict(os.environ, {"NEAPTIDE_SOFT_SMS": "1", "NEAPTIDE_SOFT_CAPACITY": "1GiB", "NEAPTIDE_SOFT_WAIT": "5"}):
    try:
        import neaptide.devices.soft  # noqa: F401 - makes the device
    except RuntimeError as impossible:
        pytest.skip(str(impossible), allow_module_level=True)

from neaptide.devices.soft.agent import SoftAgent
from neaptide.live.job.measurer import KernelMeasurer

sys.path.append(str(Path(__file__).parents[1] / "soft"))
from training import identical, train


class Measured:
    """Measures the first iterations of what runs, and keeps the trace."""

    def __init__(self) -> None:
        self.first = KernelMeasurer(SoftAgent())
        self.trace: Trace | None = None

    def begin(self, serving: bool, trained: bool) -> None:
        if self.trace is None and (found := self.first.begin(serving, trained, lambda: "job")) is not None:
            self.trace = found.trace

    def end_forward(self) -> None:
        self.first.end_forward()

    def end(self) -> None: ...

    def change(self) -> None:
        self.first.change()


@contextmanager
def measured() -> Iterator[Measured]:
    listener = Measured()
    boundaries = Boundaries(listener, "soft")
    boundaries.install()
    try:
        yield listener
    finally:
        boundaries.remove()


@pytest.mark.parametrize(
    ("model", "optimizer"),
    [("resnet18", "sgd"), ("gpt2", "adamw"), ("rnnlm-small", "sgd"), ("transformer", "adamw"), ("unet", "adamw")],
)
def test_measuring_changes_no_loss_and_no_parameter(model: str, optimizer: str) -> None:
    plain = train(model, "soft", optimizer, steps=9)
    with measured() as seen:
        watched = train(model, "soft", optimizer, steps=9)
    assert identical(plain, watched)
    assert seen.trace is not None
    assert set(seen.trace.ops.phase.tolist()) == {Phase.FORWARD, Phase.BACKWARD}
    assert seen.trace.variation == ""


def test_measuring_draws_no_random_number() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3, device="soft"), torch.rand(3)
    torch.manual_seed(7)
    with measured() as seen:
        drawn: list[torch.Tensor] = []
        network = torch.nn.Linear(3, 3, device="meta").to_empty(device="soft")
        torch.nn.init.zeros_(network.weight)
        with torch.no_grad():
            for _ in range(8):
                network(torch.ones(2, 3, device="soft"))
        drawn += torch.rand(3, device="soft"), torch.rand(3)
    assert seen.trace is not None
    assert all(one.equal(other) for one, other in zip(expected, drawn, strict=True))
