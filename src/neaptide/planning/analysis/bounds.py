"""The bytes that an op needs for itself, and the peak that no plan in the trace's order can go below."""

from __future__ import annotations

import numpy as np

from neaptide.core.traces.columns import Integers, bytes_per_row
from neaptide.core.traces.trace import Kind, Trace
from neaptide.planning.analysis.candidates import candidates


def needed_bytes(trace: Trace, sizes: Integers) -> Integers:
    """The bytes that each op reads and writes, each tensor counted once with its size in `sizes`, and its scratch."""
    ops, m = trace.ops, len(trace.tensors)
    keys = np.unique(
        np.concatenate((ops.reads.owners() * m + ops.reads.items, ops.writes.owners() * m + ops.writes.items))
    )
    needed = ops.scratch_bytes.copy()
    np.add.at(needed, keys // m, sizes[keys % m])
    return needed


def lower_bound(trace: Trace) -> int:
    """The peak that no plan in this order can go below: at each op, what it uses and what no planner may release."""
    tensors, n = trace.tensors, len(trace.ops)
    planned = np.zeros(len(tensors), dtype=np.bool_)
    planned[candidates(trace).tensor] = True
    fixed = np.flatnonzero(~planned)
    # Ephemeral tensors could be released after their last use.
    idle = (tensors.kind == Kind.ACTIVATION) | (tensors.kind == Kind.TEMPORARY)
    died = np.where(idle & (tensors.died < n), np.maximum(trace.uses.last, tensors.born), tensors.died)
    held = bytes_per_row(tensors.born[fixed], died[fixed], tensors.bytes[fixed], n)
    return int((held + needed_bytes(trace, np.where(planned, tensors.bytes, 0))).max())
