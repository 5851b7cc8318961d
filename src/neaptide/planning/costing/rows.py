"""The rows of a planned iteration: the ops of the trace, and what a plan inserts before and after them.

Before an op come, in this order, the wait for its copies, the decodings, and the ops that run again, in the order of
their first run. After an op come the encodings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.writers import Writers

WAIT, DECODE, RERUN, ORIGINAL, ENCODE = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows in order, and the row of each op, gap and rerun."""

    stage: Integers
    anchor: Integers  # the op that the row precedes, follows or is
    item: Integers  # the op of a RERUN or ORIGINAL row, the gap of a DECODE or ENCODE row
    op_row: Integers  # of each op; last, one past the end, for what outlives the iteration
    group_row: Integers  # the first row inserted before each op, or the op's own row; last, one past the end
    wait_row: Integers  # of each swap gap: where its copy in is waited for; else -1
    gone_row: Integers  # of each swap gap whose copy out is waited for: where; else -1
    encode_row: Integers  # of each decode gap, else -1
    decode_row: Integers  # of each decode gap, else -1
    rerun_row: Integers
    rerun_op: Integers
    rerun_before: Integers
    run_gap: Integers  # in pairs: this recompute gap ...
    run_rerun: Integers  # ... is served by this rerun

    def __len__(self) -> int:
        return self.stage.size


def planned_rows(trace: Trace, gaps: GapTable, writers: Writers) -> Rows:
    """The rows of a plan; ValueError if it recomputes a tensor that no op has made."""
    n = len(trace.ops)
    again = np.flatnonzero(gaps.recompute & ~gaps.dropped)
    index, op = writers.until(gaps.tensor[again], gaps.after[again])
    if np.unique(index).size < again.size:
        tensor = gaps.tensor[again[np.bincount(index, minlength=again.size).argmin()]]
        raise ValueError(f"not a plan: no op makes tensor {tensor}, so it cannot be recomputed")
    run_gap = again[index]
    # One rerun of an op serves all gaps that end before the same op.
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
    return Rows(
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
