"""The forward pass in segments between narrow cuts, as in checkpointing by block."""

from __future__ import annotations

import numpy as np

from neaptide.core.traces.columns import Flags, Integers, bytes_per_row
from neaptide.core.traces.trace import Phase, Trace
from neaptide.planning.analysis.idle_spans import IdleSpans


def segments(trace: Trace, spans: IdleSpans, count: int) -> tuple[Flags, Integers] | None:
    """The spans of tensors that stay inside one of `count` segments, and the spans of tensors that cross a cut.

    Each segment makes about the same number of bytes. Near those places, a cut lies where the fewest bytes cross it.
    None if the trace is too short for `count` segments.
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
    crossing = crossing_bytes(trace)
    cuts = []
    for before, at, after in zip(edges, edges[1:], edges[2:], strict=False):
        low, high = (before + at) // 2 + 1, (at + after) // 2 + 1
        if low < high:
            cuts.append(low + int(crossing[low:high].argmin()))
    crosses = np.zeros(len(spans), dtype=np.bool_)
    for cut in cuts:
        crosses |= (producer <= cut) & (trace.uses.last_forward[spans.tensor] > cut)
    return ~crosses & spans.first, np.flatnonzero(crosses & spans.first)


def crossing_bytes(trace: Trace) -> Integers:
    """For each op, the bytes made up to it that later ops of the forward pass use."""
    uses, tensors = trace.uses, trace.tensors
    own = np.flatnonzero((uses.producer >= 0) & (uses.last_forward > uses.producer) & (tensors.born >= 0))
    return bytes_per_row(uses.producer[own], uses.last_forward[own] - 1, tensors.bytes[own], len(trace.ops))
