from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.analysis.candidates import candidates, recomputable, repeatable
from neaptide.planning.costing.order import dependencies

F, B = Phase.FORWARD, Phase.BACKWARD


def block() -> Trace:
    """Weights, an input, a normalization with its statistics, a ReLU in place, a dropout, and their backward ops."""
    return make_trace(
        [
            Op(name="aten::mm", phase=F, reads=[0, 1], writes=[2]),
            Op(name="aten::native_batch_norm", phase=F, reads=[2, 3], writes=[4, 3]),
            Op(name="aten::relu_", phase=F, reads=[4], writes=[4]),
            Op(name="aten::bernoulli_", phase=F, reads=[5], writes=[5]),
            Op(name="aten::mul", phase=F, reads=[4, 5], writes=[6]),
            Op(name="aten::mul", phase=B, reads=[6, 5], writes=[7]),
            Op(name="aten::threshold_backward", phase=B, reads=[4, 7], writes=[7]),
            Op(name="aten::mm", phase=B, reads=[1, 2, 7], writes=[8]),
        ],
        [
            Tensor(bytes=8, born=-1, died=8, kind=Kind.PARAMETER),
            Tensor(bytes=4, born=-1, died=7, kind=Kind.INPUT, saved=True),
            Tensor(bytes=16, born=0, died=7, kind=Kind.ACTIVATION, saved=True),
            Tensor(bytes=2, born=-1, died=8, kind=Kind.BUFFER),
            Tensor(bytes=16, born=1, died=6, kind=Kind.ACTIVATION, saved=True),
            Tensor(bytes=16, born=3, died=5, kind=Kind.ACTIVATION, saved=True),
            Tensor(bytes=16, born=4, died=5, kind=Kind.TEMPORARY),
            Tensor(bytes=16, born=5, died=7),
            Tensor(bytes=8, born=7, died=8, kind=Kind.GRADIENT),
        ],
    )


def test_candidates_are_the_tensors_that_the_forward_pass_leaves_for_the_backward_pass() -> None:
    found = candidates(block())
    assert found.tensor.tolist() == [2, 4, 5]
    assert found.producer.tolist() == [0, 1, 3]
    assert found.last_forward.tolist() == [1, 4, 4]
    assert found.first_backward.tolist() == [7, 6, 5]
    assert found.recomputable.tolist() == [True, True, False]


def test_random_ops_and_backward_ops_are_not_repeatable() -> None:
    assert repeatable(block()).tolist() == [True, True, True, False, True, False, False, False]


@pytest.mark.parametrize("name", ["aten::rrelu_with_noise", "aten::poisson", "aten::cauchy_"])
def test_ops_that_draw_random_numbers_are_not_repeated_and_keep_their_order(name: str) -> None:
    draws = [Op(name=name, phase=F, writes=[0]), Op(name=name, phase=F, writes=[1])]
    trace = make_trace(draws, [Tensor(bytes=1, born=0, died=1), Tensor(bytes=1, born=1, died=1)])
    assert not repeatable(trace).any()
    assert dependencies(trace) == [[], [0]]


def test_a_copy_from_the_host_is_not_repeatable_and_a_copy_on_the_device_is() -> None:
    ops = [Op(name="aten::_to_copy", writes=[0]), Op(name="aten::_to_copy", reads=[0], writes=[1])]
    trace = make_trace(ops, [Tensor(bytes=1, born=0, died=1), Tensor(bytes=1, born=1, died=1)])
    assert repeatable(trace).tolist() == [False, True]


def test_a_tensor_made_from_an_input_that_was_overwritten_is_not_recomputable() -> None:
    ops = [
        Op(name="aten::mm", writes=[0]),
        Op(name="aten::mul", reads=[0], writes=[1]),
        Op(name="aten::relu_", reads=[0], writes=[0]),
        Op(phase=B, reads=[0, 1]),
    ]
    trace = make_trace(ops, [Tensor(bytes=1, born=0, died=3), Tensor(bytes=1, born=1, died=3)])
    assert recomputable(trace).tolist() == [True, False]


def test_the_lower_bound_is_what_one_op_uses_and_what_no_plan_may_release() -> None:
    # The first product of the backward pass: input 4, weights 8, statistics 2, its own 16 + 16 and the new gradient 8.
    # The op before it: input 4, weights 8, statistics 2, 16 + 16.
    assert lower_bound(block()) == 4 + 8 + 2 + 16 + 16 + 16
