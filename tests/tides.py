"""Synthetic traces in the shape of a tide, for tests with many jobs."""

from __future__ import annotations

from builders import Op, Tensor, make_trace
from neaptide.core.traces.trace import Kind, Phase, Trace

MIB = 1 << 20
# V100's peaks, so that a full op asks for most of the device.
_FLOPS = 15.7e12
_BANDWIDTH = 900e9


def tide(
    name: str = "tide",
    ops: int = 200,
    seconds: float = 0.1,
    persistent: int = 100 * MIB,
    ephemeral: int = 900 * MIB,
    fill: float = 1.0,
    batch: int = 1,
    inference: bool = False,
    host_seconds: float = 5e-6,
) -> Trace:
    """A trace whose memory rises by equal steps in the forward pass and falls in the backward pass; then updates come.

    `seconds` is the device's time, spread evenly; `ephemeral` is the exact height of the tide. Odd ops are bound by
    compute, even ones by bandwidth. An inference trace holds one buffer of that height at a time.
    """
    assert ops >= 1
    each = seconds / ops
    if inference:
        tensors = [Tensor(bytes=ephemeral, born=op, died=op) for op in range(ops)]
        phases = [Phase.INFERENCE] * ops
    else:
        forward = max(ops * 2 // 5, 1)
        updates = ops // 5 if ops >= 3 else 0
        layers = min(forward, ops - forward - updates) or 1
        sizes = [ephemeral // layers + (layer < ephemeral % layers) for layer in range(layers)]
        last_backward = ops - updates - 1
        tensors = [
            Tensor(bytes=size, born=layer, died=max(last_backward - layer, layer), kind=Kind.ACTIVATION, saved=True)
            for layer, size in enumerate(sizes)
        ]
        phases = [
            Phase.FORWARD if op < forward else Phase.BACKWARD if op <= last_backward else Phase.OPTIMIZER
            for op in range(ops)
        ]
    weight = Tensor(bytes=persistent, born=-1, died=ops, kind=Kind.PARAMETER, label="weight")
    rows = [
        Op(
            phase=phase,
            seconds=each,
            host_seconds=host_seconds,
            flops=each * _FLOPS * fill * (0.7 if op % 2 else 0.1),
            moved_bytes=int(each * _BANDWIDTH * fill * (0.1 if op % 2 else 0.8)),
            fill=fill,
        )
        for op, phase in enumerate(phases)
    ]
    trace = make_trace(rows, [*tensors, weight], name=name, batch=batch, asynchronous=True)
    trace.check()
    return trace
