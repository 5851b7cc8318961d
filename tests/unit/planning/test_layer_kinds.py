"""What kind of layer an op is, told by its name and by what it reads."""

from __future__ import annotations

import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.traces.trace import Kind, Phase
from neaptide.planning.analysis.layer_kinds import LayerKind, kinds_of_ops

ACTIVATIONS = [Tensor(bytes=8, born=-1, died=1, kind=Kind.ACTIVATION) for _ in range(2)]


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (Op(name="aten::add", reads=(0, 1)), LayerKind.JOIN),
        (Op(name="aten::add_", reads=(0, 1)), LayerKind.JOIN),
        (Op(name="aten::mul", reads=(0, 1)), LayerKind.OTHER),
        (Op(name="aten::add", reads=(0,)), LayerKind.OTHER),
        (Op(name="aten::add", reads=(0, 2)), LayerKind.OTHER),  # a bias
        (Op(name="aten::add", reads=(0, 3)), LayerKind.OTHER),  # of another size
        (Op(name="aten::add", reads=(0, 1), phase=Phase.BACKWARD), LayerKind.OTHER),
    ],
)
def test_a_forward_op_that_adds_two_equal_tensors_of_this_iteration_is_a_join(op: Op, kind: LayerKind) -> None:
    others = [
        Tensor(bytes=8, born=-1, died=1, kind=Kind.PARAMETER),
        Tensor(bytes=4, born=-1, died=1, kind=Kind.ACTIVATION),
    ]
    assert kinds_of_ops(make_trace([op], [*ACTIVATIONS, *others])) == [kind]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::convolution", LayerKind.CONVOLUTION),
        ("aten::addmm", LayerKind.FULLY_CONNECTED),
        ("aten::cat", LayerKind.CONCATENATION),
        ("aten::_log_softmax", LayerKind.SOFTMAX),
        ("aten::max_pool2d_with_indices", LayerKind.POOLING),
        ("aten::native_batch_norm", LayerKind.NORMALIZATION),
        ("aten::native_dropout", LayerKind.DROPOUT),
        ("aten::relu_", LayerKind.ACTIVATION),
    ],
)
def test_the_name_of_an_op_tells_the_kind_of_its_layer(name: str, kind: LayerKind) -> None:
    assert kinds_of_ops(make_trace([Op(name=name)])) == [kind]
