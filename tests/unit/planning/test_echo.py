"""Echo: results of cheap ops are recomputed, products are not."""

from __future__ import annotations

import pytest

from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError, Return
from neaptide.planning.planners import echo
from steps import chain_step, device

NAMES = ["aten::addmm", "aten::tanh", "aten::mm", "aten::sigmoid", "aten::bmm", "aten::softmax"]


@pytest.mark.parametrize(
    ("name", "cheap"),
    [
        ("aten::tanh", True),
        ("aten::mul", True),
        ("aten::native_layer_norm", True),
        ("aten::mm", False),
        ("aten::addmm", False),
        ("aten::convolution", False),
        ("aten::mkldnn_rnn_layer", False),
        ("aten::_scaled_dot_product_flash_attention", False),
    ],
)
def test_products_convolutions_and_recurrent_layers_are_not_cheap(name: str, cheap: bool) -> None:
    assert echo.is_cheap(name) is cheap


def test_only_results_of_cheap_ops_are_recomputed() -> None:
    trace = chain_step([10] * 6, names=NAMES)
    plan = echo.plan(trace, trace.peak_bytes - 20, device())
    assert {gap.tensor for gap in plan.gaps} == {1, 3}
    assert {gap.back for gap in plan.gaps} == {Return.RECOMPUTE}
    assert apply(trace, plan, device()).seconds == trace.seconds + 2


def test_a_tensor_whose_recomputation_brings_back_more_than_it_saves_is_kept() -> None:
    # To recompute tensor 2, tensor 1 would have to come back, which is recomputed itself and much larger.
    trace = chain_step([10, 1000, 10, 10], names=["aten::mm", "aten::tanh", "aten::mul", "aten::mm"])
    plan = echo.plan(trace, trace.peak_bytes - 5, device())
    assert {gap.tensor for gap in plan.gaps} == {1}
    with pytest.raises(CannotFitError):
        echo.plan(trace, trace.peak_bytes - 1005, device())


def test_echo_cannot_lower_the_peak_of_a_graph_of_products() -> None:
    trace = chain_step([10] * 4)
    with pytest.raises(CannotFitError, match="echo cannot meet"):
        echo.plan(trace, trace.peak_bytes - 1, device())
