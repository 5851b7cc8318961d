"""The forward pass in segments between narrow cuts, as checkpointing by block does it."""

from __future__ import annotations

import numpy as np

from neaptide.core.traces.columns import Flags, Integers
from neaptide.core.traces.trace import Phase, Trace
from neaptide.planning.analysis.idle_spans import Spans


def segments(trace: Trace, spans: Spans, count: int) -> tuple[Flags, Integers] | None:
    """Which spans are of tensors made and read inside one of `count` segments, and which are of those that cross a cut.

    The segments make about the same bytes each; within that, a cut is where the least has to be handed on. None if the
    trace has no room for so many cuts.
    """
    forward = np.flatnonzero(trace.ops.phase == Phase.FORWARD)
    if forward.size < 2 * count or len(spans) < count:
        return None
    last = int(forward[-1])
    made = np.zeros(last + 1)
    producer = trace.uses.producer[spans.tensor]
    np.add.at(made, np.minimum(producer, last)[spans.first], spans.bytes[spans.first])
    targets = np.searchsorted(np.cumsum(made) / made.sum(), np.arange(1, count) / count)
    edges = [0, *targets.tolist(), last]
    handed_on = crossing_bytes(trace)
    cuts = []
    for before, at, after in zip(edges, edges[1:], edges[2:], strict=False):
        low, high = (before + at) // 2 + 1, (at + after) // 2 + 1
        if low < high:
            cuts.append(low + int(handed_on[low:high].argmin()))
    crosses = np.zeros(len(spans), dtype=np.bool_)
    for cut in cuts:
        crosses |= (producer <= cut) & (trace.uses.last_forward[spans.tensor] > cut)
    return ~crosses & spans.first, np.flatnonzero(crosses & spans.first)


def crossing_bytes(trace: Trace) -> Integers:
    """For each op, the bytes that it and the ops before it have made and that later ops of the forward pass read."""
    uses, tensors = trace.uses, trace.tensors
    own = np.flatnonzero((uses.producer >= 0) & (uses.last_forward > uses.producer) & (tensors.born >= 0))
    change = np.zeros(len(trace.ops) + 1, dtype=np.int64)
    np.add.at(change, uses.producer[own], tensors.bytes[own])
    np.subtract.at(change, uses.last_forward[own], tensors.bytes[own])
    return np.cumsum(change)[:-1]
