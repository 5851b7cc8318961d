"""The order of a planned iteration: the ops of the trace, and the rows that a plan inserts before and after them.

Before op b, in this order: the wait for its copies, its decodings, and the ops that run again, as they ran at first.
After an op: the encodings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Integers, Lists
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.gap_table import GapTable

WAIT, DECODE, RERUN, ORIGINAL, ENCODE = range(5)


class Writers:
    """Which ops write which tensors, by tensor; what every plan of a trace needs."""

    def __init__(self, trace: Trace) -> None:
        self._stride = len(trace.ops) + 1
        self._keys = np.unique(trace.ops.writes.items * self._stride + trace.ops.writes.owners())

    def until(self, tensors: Integers, op: Integers) -> tuple[Integers, Integers]:
        """The writers of each tensor up to op `op`, as (index into `tensors`, writer)."""
        low = self._keys.searchsorted(tensors * self._stride)
        high = self._keys.searchsorted(tensors * self._stride + op, side="right")
        index, at = spread(low, np.maximum(high - low, 0))
        return index, self._keys[at] % self._stride

    def next_at(self, tensors: Integers, op: Integers) -> Integers:
        """The first writer of each tensor from op `op` on; the number of ops if there is none."""
        at = self._keys.searchsorted(tensors * self._stride + op)
        keys = np.append(self._keys, np.iinfo(np.int64).max)[at]
        return np.where(keys // self._stride == tensors, keys % self._stride, self._stride - 1)


def spread(low: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """The runs `low[i] .. low[i] + counts[i] - 1`, joined, as (i, position)."""
    index = np.repeat(np.arange(low.size), counts)
    return index, low[index] + np.arange(index.size) - np.repeat(np.cumsum(counts) - counts, counts)


def rows_of(lists: Lists, rows: Integers) -> tuple[Integers, Integers]:
    """The items of some rows of a column of lists, as (index into `rows`, item)."""
    index, at = spread(lists.offsets[rows], lists.offsets[rows + 1] - lists.offsets[rows])
    return index, lists.items[at]


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """Rows in order, and where to find each thing among them."""

    stage: Integers
    anchor: Integers  # the op before which, after which or at which the row is
    item: Integers  # the op of a RERUN or ORIGINAL row, the gap of a DECODE or ENCODE row
    op_row: Integers  # of each op, and one past the last row for what outlives the iteration
    group_row: Integers  # the first row that is inserted before each op, or the op's own; the same past the end
    wait_row: Integers  # of each swap gap, where its copy in is waited for, else -1
    gone_row: Integers  # of each swap gap whose copy out is waited for, else -1
    encode_row: Integers  # of each decode gap, else -1
    decode_row: Integers  # of each decode gap, else -1
    rerun_row: Integers
    rerun_op: Integers
    rerun_before: Integers
    run_gap: Integers  # pairs: this recompute gap ...
    run_rerun: Integers  # ... is served by this rerun

    def __len__(self) -> int:
        return self.stage.size


def sequence(trace: Trace, gaps: GapTable, writers: Writers) -> Sequence:
    """The rows of a plan; ValueError if a tensor is to be computed again that no op has made."""
    n = len(trace.ops)
    again = np.flatnonzero(gaps.recompute & ~gaps.dropped)
    index, op = writers.until(gaps.tensor[again], gaps.after[again])
    if np.unique(index).size < again.size:
        tensor = gaps.tensor[again[np.bincount(index, minlength=again.size).argmin()]]
        raise ValueError(f"not a plan: no op makes tensor {tensor}, so none can make it again")
    run_gap = again[index]
    # One run serves all the gaps that end there.
    keys, run_rerun = np.unique(gaps.before[run_gap] * n + op, return_inverse=True)
    swaps, codes = np.flatnonzero(gaps.swap), np.flatnonzero(gaps.decode)
    leaving = swaps[gaps.gone[swaps] >= 0]
    waits = np.unique(np.concatenate((gaps.before[swaps], gaps.gone[leaving])))
    counts = [waits.size, codes.size, keys.size, n, codes.size]
    stage = np.repeat(np.array([WAIT, DECODE, RERUN, ORIGINAL, ENCODE]), counts)
    anchor = np.concatenate((waits, gaps.before[codes], keys // n, np.arange(n), gaps.after[codes]))
    item = np.concatenate((np.full(waits.size, -1), codes, keys % n, np.arange(n), codes))
    order = np.lexsort((item, stage, anchor))
    row = np.empty_like(order)
    row[order] = np.arange(order.size)
    wait_at, decode_at, rerun_at, op_at, encode_at = np.split(row, np.cumsum(counts)[:-1])
    op_row = np.append(op_at, order.size)
    inserted = np.bincount(anchor[: sum(counts[:3])], minlength=n + 1)
    wait_row, gone_row, encode_row, decode_row = (np.full(len(gaps), -1) for _ in range(4))
    wait_row[swaps] = wait_at[np.searchsorted(waits, gaps.before[swaps])]
    gone_row[leaving] = wait_at[np.searchsorted(waits, gaps.gone[leaving])]
    encode_row[codes], decode_row[codes] = encode_at, decode_at
    return Sequence(
        stage=stage[order],
        anchor=anchor[order],
        item=item[order],
        op_row=op_row,
        group_row=op_row - inserted,
        wait_row=wait_row,
        gone_row=gone_row,
        encode_row=encode_row,
        decode_row=decode_row,
        rerun_row=rerun_at,
        rerun_op=keys % n,
        rerun_before=keys // n,
        run_gap=run_gap,
        run_rerun=run_rerun,
    )
