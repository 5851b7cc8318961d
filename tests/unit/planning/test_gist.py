"""Gist: which codec a tensor gets."""

from __future__ import annotations

import pytest

from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError
from neaptide.planning.planners import gist
from steps import chain_step, device

POOL = ["aten::convolution", "aten::relu_", "aten::max_pool2d_with_indices", "aten::linear"]
POOL_BACKWARD = [
    "aten::convolution_backward",
    "aten::threshold_backward",
    "aten::max_pool2d_with_indices_backward",
    "aten::mm",
]
CONV = ["aten::convolution", "aten::relu", "aten::convolution", "aten::linear"]
CONV_BACKWARD = ["aten::convolution_backward", "aten::convolution_backward", "aten::convolution_backward", "aten::mm"]


def test_a_relu_of_which_only_the_sign_is_read_again_gets_one_bit_per_value() -> None:
    trace = chain_step([320] * 4, names=POOL, backward_names=POOL_BACKWARD)
    assert gist.codecs(trace, lossy=False) == {1: "bit"}


def test_a_relu_that_a_backward_convolution_reads_is_kept_sparse() -> None:
    trace = chain_step([320] * 4, names=CONV, backward_names=CONV_BACKWARD)
    assert gist.codecs(trace, lossy=False) == {1: "sparse"}


def test_only_gist_lossy_reduces_the_precision_of_other_tensors() -> None:
    trace = chain_step([320] * 4, names=CONV, backward_names=CONV_BACKWARD)
    assert gist.codecs(trace, lossy=True) == {0: "half", 1: "sparse", 2: "half", 3: "half"}
    budget = trace.peak_bytes - 300
    with pytest.raises(CannotFitError):
        gist.plan(trace, budget, device())
    lossy = gist.plan_lossy(trace, budget, device())
    assert not lossy.lossless
    assert apply(trace, lossy, device()).peak_bytes <= budget


def test_one_bit_per_value_saves_31_of_32_bytes_between_the_passes() -> None:
    trace = chain_step([320] * 4, names=POOL, backward_names=POOL_BACKWARD)
    plan = gist.plan(trace, trace.peak_bytes - 310, device())
    assert plan.lossless
    assert [(gap.tensor, gap.codec) for gap in plan.gaps] == [(1, "bit")]
    assert apply(trace, plan, device()).peak_bytes == trace.peak_bytes - 310
