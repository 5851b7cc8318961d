"""Several iterations of a job as one trace, for iterations so short that deciding takes longer than running."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Phase, Trace


def repeated(trace: Trace, count: int) -> Trace:
    """`count` iterations one after another, with the same bytes held. All but the last become its forward pass.

    The reads and writes of ops are left out.
    """
    if count == 1:
        return trace
    ops, tensors, length = trace.ops, trace.tensors, len(trace.ops)
    turn = np.repeat(np.arange(count), tensors.bytes.size)
    born, died = np.tile(tensors.born, count), np.tile(tensors.died, count)
    from_before, outlives = (born < 0) & (turn == 0), (died == length) & (turn == count - 1)
    phase = np.tile(ops.phase, count)
    phase[: (count - 1) * length] = Phase.FORWARD
    nothing = Lists.of([()] * (count * length))
    return replace(
        trace,
        batch=trace.batch * count,
        ops=replace(
            ops,
            name=_tiled(ops.name, count),
            module=_tiled(ops.module, count),
            phase=phase,
            seconds=np.tile(ops.seconds, count),
            host_seconds=np.tile(ops.host_seconds, count),
            flops=np.tile(ops.flops, count),
            moved_bytes=np.tile(ops.moved_bytes, count),
            fill=np.tile(ops.fill, count),
            scratch_bytes=np.tile(ops.scratch_bytes, count),
            reads=nothing,
            writes=nothing,
        ),
        tensors=replace(
            tensors,
            bytes=np.tile(tensors.bytes, count),
            kind=np.tile(tensors.kind, count),
            label=_tiled(tensors.label, count),
            layout=_tiled(tensors.layout, count),
            born=np.where(from_before, -1, np.maximum(born, 0) + turn * length),
            died=np.where(outlives, count * length, np.minimum(died, length - 1) + turn * length),
            saved=np.tile(tensors.saved, count),
        ),
    )


def _tiled(labels: Labels, count: int) -> Labels:
    return Labels(labels.words, np.tile(labels.codes, count))
