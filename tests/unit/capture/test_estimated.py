"""What an estimate says of programs that were not run."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from neaptide import estimate, models
from neaptide.capture.session import CaptureError
from neaptide.capture.timing.cost import cost_of
from neaptide.capture.timing.rnn_workspace import rnn_workspace_bytes
from neaptide.core.device import CATALOGUE, find_device
from neaptide.core.traces.trace import Phase, Trace
from neaptide.core.units import GIB

pytestmark = pytest.mark.networks

V100 = find_device("V100-16GB")
MEASUREMENTS = Path(__file__).parents[4] / "shared" / "data"
aten = torch.ops.aten


def forward_of(module: nn.Module, *shape: int, half: bool = False) -> Trace:
    """The trace of calling a module that was built outside; its weights become fake on the way."""

    def build() -> Callable[[], object]:
        def step() -> Tensor:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
                return module(torch.rand(*shape))

        return step

    return estimate(build, V100)


@pytest.mark.parametrize(
    ("name", "batch", "least_gib"), [("bert-large", 32, 8), ("resnet152", 75, 12), ("nasnet-large", 32, 16)]
)
def test_networks_that_do_not_fit_this_machine_are_estimated(name: str, batch: int, least_gib: float) -> None:
    trace = estimate(lambda: models.build(name, batch=batch).step, V100)
    trace.check()
    assert trace.estimated
    assert least_gib * GIB < trace.peak_bytes < 40 * GIB
    assert 0.1 < trace.seconds < 10
    assert trace.variation == ""


@cache
def vgg11_on(device: str) -> Trace:
    return estimate(lambda: models.build("vgg11", batch=2).step, CATALOGUE[device])


@pytest.mark.parametrize("device", CATALOGUE)
def test_a_faster_device_takes_less_time_and_the_same_bytes(device: str) -> None:
    one, slowest = vgg11_on(device), vgg11_on("soft")
    assert one.peak_bytes == slowest.peak_bytes
    assert one.seconds <= slowest.seconds


def test_half_precision_is_faster_where_matrices_are_large() -> None:
    module = nn.Linear(4096, 4096)
    full, half = (forward_of(module, 8192, 4096, half=half) for half in (False, True))
    matrix = [trace.ops.seconds[trace.ops.name.which("aten::addmm")].sum() for trace in (full, half)]
    assert matrix[1] < matrix[0] / 2


def test_small_ops_are_light_and_large_ones_are_not() -> None:
    small, large = (forward_of(nn.ReLU(), size) for size in (1000, 10_000_000))
    assert small.light[-1]
    assert not large.light[-1]
    assert small.ops.seconds[-1] == V100.kernel_seconds


def flops(call: Callable[[], object]) -> float:
    """The flops of the last op of a call, by its trace."""
    return float(estimate(lambda: call, V100).ops.flops[-1])


def test_flops_of_matrix_products_and_convolutions_are_exact() -> None:
    assert flops(lambda: torch.rand(3, 5) @ torch.rand(5, 7)) == 2 * 3 * 5 * 7
    images = (2, 4, 10, 10)
    assert flops(lambda: torch.conv2d(torch.rand(images), torch.rand(6, 4, 3, 3))) == 2 * (2 * 6 * 8 * 8) * 4 * 9
    grouped = lambda: torch.conv2d(torch.rand(images), torch.rand(8, 1, 3, 3), groups=4)  # noqa: E731
    assert flops(grouped) == 2 * (2 * 8 * 8 * 8) * 1 * 9
    spread = lambda: torch.conv_transpose2d(torch.rand(images), torch.rand(4, 6, 3, 3))  # noqa: E731
    assert flops(spread) == 2 * (2 * 4 * 10 * 10) * 6 * 9


@pytest.mark.parametrize(("wanted", "products"), [((True, True, False), 2), ((False, True, True), 1)])
def test_a_convolutions_backward_costs_a_product_per_gradient(wanted: tuple[bool, ...], products: int) -> None:
    gradient, images, weight = torch.rand(2, 8, 8, 8), torch.rand(2, 8, 10, 10), torch.rand(8, 1, 3, 3)
    args = (gradient, images, weight, [8], [1, 1], [0, 0], [1, 1], False, [0, 0], 8, list(wanted))
    out = aten.convolution_backward(*args)
    cost = cost_of(aten.convolution_backward.default, args, {}, [gradient, images, weight], [], out)
    assert cost.flops == products * 2 * gradient.numel() * 9


@pytest.mark.parametrize(("steps", "batch", "width", "hidden"), [(3, 2, 8, 16), (40, 4, 20, 33), (200, 5, 64, 48)])
def test_the_workspace_of_an_lstm_is_that_of_the_library(steps: int, batch: int, width: int, hidden: int) -> None:
    state = torch.zeros(batch, hidden)
    weights = [torch.zeros(4 * hidden, n) for n in (width, hidden)] + [torch.zeros(4 * hidden)] * 2
    args = (torch.zeros(steps, batch, width), *weights, state, state)
    args += (False, [], 2, hidden, 1, True, False, False, True)  # type: ignore[assignment]
    real = aten.mkldnn_rnn_layer(*args)[3].numel()
    assert rnn_workspace_bytes(args) == pytest.approx(real, rel=0.01)


def test_a_program_may_ask_for_values() -> None:
    def step() -> None:
        loss = torch.rand(4).sum()
        assert loss.item() == 1.0
        assert not torch.isnan(loss).any()
        assert (loss < 3).all()

    trace = estimate(lambda: step, V100)
    assert "aten::_local_scalar_dense" in trace.ops.name.words


def test_shapes_that_depend_on_values_are_one_clear_error() -> None:
    with pytest.raises(CaptureError, match=r"^aten.nonzero.default gives a shape that depends on values.*measure it"):
        estimate(lambda: lambda: torch.rand(4).nonzero(), V100)


def test_a_loop_that_waits_for_a_value_ends_in_an_error() -> None:
    def step() -> None:
        while not (torch.rand(1) > 2):
            pass

    with pytest.raises(CaptureError, match="loops until a value changes"):
        estimate(lambda: step, V100)


def measurements(name: str) -> list[dict[str, str]]:
    if not MEASUREMENTS.is_dir():
        pytest.skip(f"public V100 measurements are not in {MEASUREMENTS.name} beside the repository")
    with (MEASUREMENTS / name).open() as rows:
        return list(csv.DictReader(rows))


@pytest.mark.parametrize(
    ("file", "name", "batch", "most"),
    [("resnet50_32_fb1", "resnet50", 32, 1.1), ("resnet101_32_fb1", "resnet101", 32, 1.1),
     ("mobilenetv2_64_fb1", "mobilenet-v2", 64, 1.6), ("resnet50_4_fwd", "resnet50", 4, 1.6)],
)  # fmt: skip
def test_kernel_time_is_near_what_orion_measured(file: str, name: str, batch: int, most: float) -> None:
    real = sum(float(row["Duration"]) for row in measurements(f"orion-v100-kernels/{file}.csv")) * 1e-9
    work = "step" if file.endswith("fb1") else "infer"
    trace = estimate(lambda: getattr(models.build(name, batch=batch), work), V100)
    ours = float(trace.ops.seconds[trace.ops.phase != Phase.OPTIMIZER].sum())
    assert 1 / most < ours / real < most


@pytest.mark.parametrize("batch", [16, 64])
def test_step_time_is_near_what_gavel_measured(batch: int) -> None:
    solo = {row["job"]: float(row["steps_per_s"]) for row in measurements("gavel-v100-pairs/solo.csv")}
    trace = estimate(lambda: models.build("resnet50", batch=batch).step, V100)
    assert np.isclose(trace.seconds * solo[f"ResNet-50 (batch size {batch})"], 1, rtol=0.25)
