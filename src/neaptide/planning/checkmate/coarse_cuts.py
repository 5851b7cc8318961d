"""Where to cut a trace into few nodes.

Cuts in the forward pass divide the bytes that it leaves into equal parts. Each cut then moves to the place nearby that
the fewest bytes of two sorts of results cross: results that die before the backward pass (they could not be held, only
recomputed) and results that are written on both sides.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np

from neaptide.core.traces.columns import Floats, Integers
from neaptide.core.traces.trace import Trace

Uses = dict[int, list[int]]  # the ops that use each tensor, in order


def uses_of(trace: Trace) -> Uses:
    """The ops that read or write each tensor."""
    uses: Uses = {}
    for op in range(len(trace.ops)):
        for tensor in dict.fromkeys((*trace.ops.reads[op].tolist(), *trace.ops.writes[op].tolist())):
            uses.setdefault(tensor, []).append(op)
    return uses


def cuts(trace: Trace, planned: AbstractSet[int], uses: Uses, begins: int, most: int) -> Integers:
    """The first op of each of at most `most` nodes, then the number of ops; the backward pass begins at `begins`."""
    n = len(trace.ops)
    forward = _forward_cuts(trace, planned, uses, begins, most // 2)
    last_use = np.zeros(n)
    for tensor in planned:
        last_use[uses[tensor][-1]] += float(trace.tensors.bytes[tensor])
    backward = _even(last_use[begins:], most - forward.size) + begins
    return np.unique(np.concatenate((forward, backward, [n])))


def _even(weights: Floats, count: int) -> Integers:
    """Where up to `count` parts of about equal weight begin; every op also has a small weight of its own."""
    if weights.size <= count:
        return np.arange(weights.size)
    total = np.cumsum(weights + max(float(weights.sum()), 1.0) / weights.size / 4)
    wanted = total[-1] * np.arange(count) / count
    return np.unique(np.searchsorted(total, wanted, side="right"))


def _forward_cuts(trace: Trace, planned: AbstractSet[int], uses: Uses, begins: int, count: int) -> Integers:
    made = np.zeros(begins)
    change = np.zeros(begins + 1)
    for tensor, ops in uses.items():
        born, died = int(trace.tensors.born[tensor]), int(trace.tensors.died[tensor])
        size = float(trace.tensors.bytes[tensor])
        if not 0 <= born < begins:
            continue
        if tensor in planned:
            made[ops[0]] += size
            last = max((op for op in ops if op < begins and tensor in trace.ops.writes[op]), default=born)
        elif died < begins:
            last = max(op for op in ops if op < begins)
        else:
            continue
        change[born + 1] += size
        change[last + 1] -= size
    crossed = np.cumsum(change)  # bytes that a cut before each op should not divide
    wanted = _even(made, count)
    if begins <= count:
        return wanted
    found = [0]
    for at, low, high in zip(wanted[1:], wanted[:-1], [*wanted[2:], begins], strict=True):
        around = np.arange((at + low) // 2 + 1, max((at + high) // 2, (at + low) // 2 + 2))
        around = around[(around > found[-1]) & (around < begins)]
        if around.size:
            found.append(int(around[np.lexsort((np.abs(around - at), crossed[around]))[0]]))
    return np.array(found)
