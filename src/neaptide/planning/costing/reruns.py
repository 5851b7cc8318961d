"""What the ops that run again read and write, and whether they find their inputs as in their first run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Integers
from neaptide.core.traces.trace import Kind, Trace
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.rows import Rows
from neaptide.planning.costing.writers import Writers, items_of


@dataclass(frozen=True, slots=True, eq=False)
class Reruns:
    """Reads and writes as (rerun, tensor)."""

    read: Integers
    read_tensor: Integers
    read_gap: Integers  # the gap that brings the tensor back before the same op; else -1
    write: Integers
    write_tensor: Integers
    unused_bytes: Integers  # of each rerun: results that it makes and no gap asks for


def find_reruns(trace: Trace, gaps: GapTable, rows: Rows, writers: Writers) -> Reruns:
    """The reads and writes of all reruns; ValueError if one would read changed data or overwrite kept data."""
    tensors, count = trace.tensors, rows.rerun_op.size
    keys = gaps.before * len(tensors) + gaps.tensor
    order = np.argsort(keys)

    def gap_of(rerun: Integers, tensor: Integers) -> Integers:
        wanted = rows.rerun_before[rerun] * len(tensors) + tensor
        at = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
        return np.where(keys[order][at] == wanted, order[at], -1)

    def fresh(rerun: Integers, tensor: Integers) -> Flags:
        born_with_the_op: Flags = tensors.born[tensor] == rows.rerun_op[rerun]
        return born_with_the_op

    write, written = items_of(trace.ops.writes, rows.rerun_op)
    read, tensor = items_of(trace.ops.reads, rows.rerun_op)
    gap, write_gap = gap_of(read, tensor), gap_of(write, written)
    made = (gap >= 0) & gaps.recompute[gap]
    # A result that no gap asks for is made beside the present one, if any, and released at once.
    unused = (write_gap < 0) & fresh(write, written)
    unused_bytes = np.zeros(count, dtype=np.int64)
    np.add.at(unused_bytes, write[unused], tensors.bytes[written[unused]])
    # A rerun may write buffers such as running statistics: the executor gives it copies of them.
    protected = tensors.kind == Kind.BUFFER
    outside = (gap < 0) & fresh(read, tensor)
    changed = writers.next_at(tensor, rows.rerun_op[read]) < rows.rerun_before[read]
    changed &= ~made & ~outside & ~protected[tensor]
    clobbers = (write_gap < 0) & ~unused & ~protected[written]
    for wrong, at, what in ((changed, read, tensor), (clobbers, write, written)):
        if wrong.any():
            first = int(wrong.argmax())
            raise ValueError(
                f"not a plan: op {rows.rerun_op[at[first]]} cannot run again before op {rows.rerun_before[at[first]]}: "
                f"tensor {what[first]} was overwritten in between"
            )
    keep = ~outside
    kept_write = write_gap >= 0
    return Reruns(read[keep], tensor[keep], gap[keep], write[kept_write], written[kept_write], unused_bytes)
