"""The kind of layer that an op belongs to, by the op's name, as SuperNeurons and vDNN distinguish layers."""

from __future__ import annotations

from enum import Enum

import numpy as np

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.trace import Kind, Phase, Trace


class LayerKind(Enum):
    """Kinds of layers; planners treat the results of one kind alike."""

    CONVOLUTION = "convolution"
    FULLY_CONNECTED = "fully connected"
    JOIN = "join"  # the sum of two branches
    CONCATENATION = "concatenation"
    SOFTMAX = "softmax"
    DATA = "data"
    ACTIVATION = "activation"
    NORMALIZATION = "normalization"
    POOLING = "pooling"
    DROPOUT = "dropout"
    OTHER = "other"


# Layers whose results are kept or swapped, not recomputed (SuperNeurons, section 3.4).
CHECKPOINTS = frozenset(
    {
        LayerKind.CONVOLUTION,
        LayerKind.FULLY_CONNECTED,
        LayerKind.JOIN,
        LayerKind.CONCATENATION,
        LayerKind.SOFTMAX,
        LayerKind.DATA,
    }
)

_CONVOLUTIONS = ("convolution", "conv1d", "conv2d", "conv3d", "conv_transpose")
_PRODUCTS = (
    "addmm",
    "mm",
    "bmm",
    "baddbmm",
    "linear",
    "matmul",
    "scaled_dot_product",
    "rnn",
    "lstm",
    "gru",
    "embedding",
)


def kind_of(name: str) -> LayerKind:
    """The kind of an op by its name alone; `kinds_of_ops` also recognises joins."""
    namespace, _, op = name.rpartition("::")
    if namespace == "layer":
        return LayerKind(op.replace("_", " "))
    op = op.removesuffix("_").removeprefix("_")
    if any(part in op for part in _CONVOLUTIONS):
        return LayerKind.CONVOLUTION
    if op in _PRODUCTS or any(part in op for part in _PRODUCTS[5:]):
        return LayerKind.FULLY_CONNECTED
    if op in ("cat", "stack"):
        return LayerKind.CONCATENATION
    if "softmax" in op or op.startswith("nll_loss"):
        return LayerKind.SOFTMAX
    if "pool" in op:
        return LayerKind.POOLING
    if "norm" in op:
        return LayerKind.NORMALIZATION
    if "dropout" in op:
        return LayerKind.DROPOUT
    if op in ("relu", "gelu", "tanh", "sigmoid", "silu", "hardswish", "leaky_relu", "elu"):
        return LayerKind.ACTIVATION
    return LayerKind.OTHER


def kinds_of_ops(trace: Trace) -> list[LayerKind]:
    """The kind of each op; a forward op that adds two tensors made in this iteration is a join."""
    words = [kind_of(word) for word in trace.ops.name.words]
    kinds = [words[code] for code in trace.ops.name.codes.tolist()]
    made = (trace.tensors.kind == Kind.ACTIVATION) | (trace.tensors.kind == Kind.TEMPORARY)
    sums = [code for code, word in enumerate(trace.ops.name.words) if word.rstrip("_") == "aten::add"]
    for op in np.flatnonzero(np.isin(trace.ops.name.codes, sums) & (trace.ops.phase == Phase.FORWARD)).tolist():
        read = set(trace.ops.reads[op].tolist())
        sizes = [int(trace.tensors.bytes[tensor]) for tensor in read if made[tensor]]
        if len(sizes) > 1 and sizes[0] == sizes[1]:
            kinds[op] = LayerKind.JOIN
    return kinds


def kinds_of(trace: Trace, producers: Integers) -> list[LayerKind]:
    """The kinds of the given ops, which are the producers of some tensors."""
    kinds = kinds_of_ops(trace)
    return [kinds[op] for op in producers.tolist()]
