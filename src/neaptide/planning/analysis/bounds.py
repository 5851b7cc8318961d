"""What no plan can go below."""

from __future__ import annotations

import numpy as np

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.trace import Kind, Trace
from neaptide.planning.analysis.candidates import candidates


def needed_bytes(trace: Trace, sizes: Integers) -> Integers:
    """The bytes that each op itself reads and writes, each tensor once by its size here, and its scratch."""
    ops, m = trace.ops, len(trace.tensors)
    keys = np.unique(
        np.concatenate((ops.reads.owners() * m + ops.reads.items, ops.writes.owners() * m + ops.writes.items))
    )
    needed = ops.scratch_bytes.copy()
    np.add.at(needed, keys // m, sizes[keys % m])
    return needed


def lower_bound(trace: Trace) -> int:
    """The most bytes that any one op uses, together with all that is there and that no planner may touch."""
    planned = np.zeros(len(trace.tensors), dtype=np.bool_)
    planned[candidates(trace).tensor] = True
    n, m = len(trace.ops), len(trace.tensors)
    fixed = np.flatnonzero(~planned)
    tensors = trace.tensors
    # What is ephemeral could be let go after its last use.
    idle = (tensors.kind == Kind.ACTIVATION) | (tensors.kind == Kind.TEMPORARY)
    died = np.where(idle & (tensors.died < n), np.maximum(trace.uses.last, tensors.born), tensors.died)
    change = np.zeros(n + 1, dtype=np.int64)
    np.add.at(change, np.clip(tensors.born[fixed], 0, n), tensors.bytes[fixed])
    np.subtract.at(change, np.clip(died[fixed] + 1, 0, n), tensors.bytes[fixed])
    held = np.cumsum(change)[:n] + trace.ops.scratch_bytes
    reads, writes = trace.ops.reads, trace.ops.writes
    keys = np.unique(np.concatenate((reads.owners() * m + reads.items, writes.owners() * m + writes.items)))
    own = planned[keys % m]
    np.add.at(held, keys[own] // m, trace.tensors.bytes[keys[own] % m])
    return int(held.max())
