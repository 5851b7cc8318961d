"""What an op costs: flops, bytes moved and how far it spreads, from its arguments alone; seconds by a roofline.

The spread is counted in pieces of work of the size one SM takes at a time, so that `fill`, the share of a device the
op can use, is pieces over SMs. Sizes of the pieces are read off public V100 kernel measurements (docs/fidelity.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from neaptide.core.device import DeviceSpec

aten = torch.ops.aten

ELEMENTS_PER_PIECE = 8192  # 16 blocks of 128 threads with 4 elements each
OUTPUTS_PER_PIECE = 32768  # 2 tiles of 128 x 128
FULL_COMPUTE_FILL = 0.5  # blocks spread over all SMs first, so a half-filled device computes at full speed
FULL_BANDWIDTH_FILL = 0.4  # and fewer SMs than that saturate its memory
# Winograd's algorithm for 3 x 3 convolutions: less arithmetic in smaller tiles.
WINOGRAD_ARITHMETIC, WINOGRAD_PIECES = 1 / 1.5, 4
DEPTHWISE_READS = 4  # a depthwise convolution reads each neighbourhood again

# These ops read only as much of their first argument as they write.
_LOOKUPS = {aten.embedding, aten.index, aten.index_select, aten.gather, aten.take}
_BATCH_NORMS = {aten.native_batch_norm, aten.native_batch_norm_backward, aten._native_batch_norm_legit}
_CONVOLUTIONS = {aten.convolution: 1, aten.convolution_backward: 2}  # the position of the weight among the arguments
_RNN_LAYERS = {aten.mkldnn_rnn_layer, aten.mkldnn_rnn_layer_backward}
_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one op costs on any device."""

    flops: float
    arithmetic: float  # flops that the algorithm carries out
    moved_bytes: int
    pieces: float
    matrix: bool  # a matrix product or a convolution
    half: bool  # in fp16 or bf16


def cost_of(
    func: Any, args: Sequence[Any], kwargs: Any, ins: Sequence[Tensor], outs: Sequence[Tensor], out: Any
) -> Cost:
    """The cost of calling `func(*args, **kwargs)`, whose tensors are `ins` and `outs` and whose result is `out`."""
    packet = func.overloadpacket
    written = sum(_span_bytes(tensor) for tensor in outs)
    read = min(written, _span_bytes(ins[0])) if packet in _LOOKUPS and ins else sum(_span_bytes(t) for t in ins)
    most_in, most_out = (max((tensor.numel() for tensor in tensors), default=0) for tensors in (ins, outs))
    matrix = packet in _MATRIX
    if matrix:
        flops = arithmetic = float(_MATRIX[packet](args, kwargs, out))
        # Long sums are split, so the larger of input and output spreads over the device; not in a forward convolution.
        pieces = (most_out if packet is aten.convolution else max(most_in, most_out)) / OUTPUTS_PER_PIECE
    else:
        flops = arithmetic = float(max(sum(tensor.numel() for tensor in outs), most_in))
        pieces = flops / ELEMENTS_PER_PIECE
    if packet in _CONVOLUTIONS:
        weight = args[_CONVOLUTIONS[packet]]
        if _is_winograd(weight, *args[2 + _CONVOLUTIONS[packet] :][:3]):
            arithmetic, pieces = arithmetic * WINOGRAD_ARITHMETIC, pieces * WINOGRAD_PIECES
        elif weight.shape[1] == 1 < weight.shape[0]:
            read = int(read * DEPTHWISE_READS)
    elif packet in _RNN_LAYERS:  # one time step after another, each with all weights
        steps, batch = args[0].shape[:2]
        read += (steps - 1) * sum(_span_bytes(weight) for weight in args[1:3])
        pieces = batch * args[1].shape[0] / ELEMENTS_PER_PIECE
    elif packet in _BATCH_NORMS:  # two passes over the data, a block per channel
        read *= 2
        pieces = min(pieces, float(ins[0].shape[1])) if ins[0].dim() > 1 else pieces
    dtype = outs[0].dtype if outs else ins[0].dtype if ins else torch.float32
    return Cost(flops, arithmetic, read + written, max(1.0, math.ceil(pieces)), matrix, dtype in _HALF)


def fill_of(pieces: npt.NDArray[np.float64], sms: int) -> npt.NDArray[np.float64]:
    """The share of a device with `sms` SMs that ops with this many pieces can use."""
    return np.minimum(1.0, pieces / sms)


def roofline_seconds(costs: Sequence[Cost], device: DeviceSpec) -> npt.NDArray[np.float64]:
    """How long each op runs alone: the longer of arithmetic and memory traffic, and at least a kernel's least time."""
    matrix = np.array([cost.matrix for cost in costs])
    half = np.array([cost.half for cost in costs])
    fill = fill_of(np.array([cost.pieces for cost in costs]), device.sms)
    rate = np.where(matrix, np.where(half, device.half_flops, device.matrix_flops), device.flops)
    speed = device.compute_efficiency * np.minimum(1.0, fill / FULL_COMPUTE_FILL)
    compute = np.array([cost.arithmetic for cost in costs]) / (rate * speed)
    speed = device.bandwidth_efficiency * np.minimum(1.0, fill / FULL_BANDWIDTH_FILL)
    traffic = np.array([cost.moved_bytes for cost in costs]) / (device.bandwidth * speed)
    return np.maximum(np.maximum(compute, traffic), device.kernel_seconds)


def _span_bytes(tensor: Tensor) -> int:
    """The bytes that an op touches through this view; an expanded dimension counts once."""
    if tensor.layout != torch.strided:
        return 0
    size: int = tensor.numel() * tensor.element_size()
    return min(size, tensor.untyped_storage().nbytes()) if 0 in tensor.stride() else size


def _registered(packet: Any) -> Any:
    def flops(args: Sequence[Any], kwargs: Any, out: Any) -> float:
        return flop_registry[packet](*args, **kwargs, out_val=out)

    return flops


def _is_winograd(weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> bool:
    """Whether libraries compute this convolution by Winograd's algorithm: 3 x 3, stride 1, dense."""
    del padding
    return list(stride) == [1, 1] == list(dilation) and tuple(weight.shape[2:]) == (3, 3) and weight.shape[1] > 1


def _convolution(args: Sequence[Any], kwargs: Any, out: Tensor) -> float:
    """Each output is a sum over the kernel and its group's channels; if transposed, each input is spread over them."""
    del kwargs
    inputs, weight, transposed = args[0], args[1], args[6]
    ends = inputs if transposed else out
    return 2.0 * ends.numel() * math.prod(weight.shape[1:])


def _convolution_backward(args: Sequence[Any], kwargs: Any, out: Any) -> float:
    """The gradients of the input and of the weight each cost as much as the forward pass."""
    del kwargs, out
    gradient, inputs, weight, transposed, wanted = args[0], args[1], args[2], args[7], args[10]
    ends = inputs if transposed else gradient
    return 2.0 * ends.numel() * math.prod(weight.shape[1:]) * sum(wanted[:2])


def _attention(args: Sequence[Any], kwargs: Any, out: Any) -> float:
    """Two products of queries with keys and with values; query, key, value are (batch, heads, length, width)."""
    del kwargs, out
    query, key = args[0], args[1]
    return 4.0 * float(query.numel()) * float(key.shape[2])


def _attention_backward(args: Sequence[Any], kwargs: Any, out: Any) -> float:
    """Five products: the scores again, and the gradients of scores, query, key and value."""
    return 2.5 * _attention(args[1:], kwargs, out)


def _rnn_layer(args: Sequence[Any], kwargs: Any, out: Any) -> float:
    """Every time step multiplies the input and the state with their weights (args 1 and 2)."""
    del kwargs, out
    steps_and_batch = args[0].shape[0] * args[0].shape[1]
    return 2.0 * float(steps_and_batch) * float(args[1].numel() + args[2].numel())


def _rnn_layer_backward(args: Sequence[Any], kwargs: Any, out: Any) -> float:
    return 2.0 * _rnn_layer(args, kwargs, out)


_MATRIX: dict[Any, Any] = {packet: _registered(packet) for packet in flop_registry} | {
    aten.convolution: _convolution,
    aten.convolution_backward: _convolution_backward,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten.mkldnn_rnn_layer: _rnn_layer,
    aten.mkldnn_rnn_layer_backward: _rnn_layer_backward,
}
