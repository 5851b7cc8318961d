"""An order of ops in which little memory is held: of the ops that can run, always the one that adds least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neaptide.core.traces.columns import Floats
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.order import followers


def ranks_that_hold_little(trace: Trace, before: Sequence[Sequence[int]]) -> Floats:
    """The place of each op in such an order, phase by phase. `before` are the dependencies of the ops."""
    tensors, count = trace.tensors, len(trace.ops)
    uses = [np.unique(np.concatenate((trace.ops.reads[op], trace.ops.writes[op]))) for op in range(count)]
    left = np.zeros(len(tensors), dtype=np.int64)  # ops that use each tensor and are still to come
    for some in uses:
        left[some] += 1
    makes = [some[tensors.born[some] == op] for op, some in enumerate(uses)]

    def growth(op: int) -> int:
        """The bytes that the op makes, less those that it is the last to use."""
        ends = uses[op][(left[uses[op]] == 1) & (tensors.died[uses[op]] < count)]
        return int(tensors.bytes[makes[op]].sum()) - int(tensors.bytes[ends].sum())

    after, waits_for = followers(before), [len(some) for some in before]
    ready = {op for op in range(count) if waits_for[op] == 0}
    phase = trace.ops.phase.tolist()
    ranks = np.zeros(count)
    for place in range(count):
        op = min(ready, key=lambda each: (phase[each], growth(each), each))
        ready.remove(op)
        ranks[op] = place
        left[uses[op]] -= 1
        for other in after[op]:
            waits_for[other] -= 1
            if waits_for[other] == 0:
                ready.add(other)
    return ranks
