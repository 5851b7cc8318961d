"""Training steps for planners: a chain of layers, forward and then backward."""

from __future__ import annotations

from collections.abc import Sequence

from builders import Op, Tensor, make_trace
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Kind, Phase, Trace


def device(link_bandwidth: float = 10.0, bandwidth: float = 1e9) -> DeviceSpec:
    """A device on which only the link takes time."""
    return DeviceSpec(
        name="test",
        memory_bytes=1 << 30,
        sms=1,
        flops=1.0,
        matrix_flops=1.0,
        half_flops=1.0,
        bandwidth=bandwidth,
        link_bandwidth=link_bandwidth,
        kernel_seconds=1e-9,
        host_seconds=1e-9,
    )


def chain_step(
    sizes: Sequence[int],
    *,
    names: Sequence[str] | None = None,
    seconds: Sequence[float] | None = None,
    backward_names: Sequence[str] | None = None,
) -> Trace:
    """Layer i makes tensor i from tensor i - 1; its backward op reads tensor i and a gradient of one byte.

    Tensor `len(sizes)` is the input, which outlives the step. Forward ops are 0, 1, ...; backward ops come in reverse.
    """
    layers = len(sizes)
    names = names or ["aten::mm"] * layers
    backward_names = backward_names or ["aten::mm"] * layers
    seconds = seconds or [1.0] * layers
    given = layers
    ops = [Op(name=names[i], seconds=seconds[i], reads=(i - 1 if i else given,), writes=(i,)) for i in range(layers)]
    tensors = [
        Tensor(bytes=sizes[i], born=i, died=2 * layers - 1 - i, kind=Kind.ACTIVATION, saved=True) for i in range(layers)
    ]
    tensors.append(Tensor(bytes=1, born=-1, died=2 * layers, kind=Kind.INPUT))
    for i in reversed(range(layers)):
        gradient = len(tensors)
        position = len(ops)
        reads = (i,) if i == layers - 1 else (i, gradient - 1)
        ops.append(
            Op(name=backward_names[i], phase=Phase.BACKWARD, seconds=seconds[i], reads=reads, writes=(gradient,))
        )
        tensors.append(Tensor(bytes=1, born=position, died=min(position + 1, 2 * layers - 1)))
    return make_trace(ops, tensors, asynchronous=False)
