"""When each tensor of a planned iteration is on the device, in rows of its sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Integers
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.copies import Run
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.reruns import Reruns
from neaptide.planning.costing.sequence import Sequence


@dataclass(frozen=True, slots=True, eq=False)
class Presences:
    """From row `start` to row `end`, both included; ordered by (tensor, start), and codes after all tensors."""

    tensor: Integers
    start: Integers
    end: Integers
    bytes: Integers
    gap: Integers  # the gap whose code it is, else -1

    def held_bytes(self, rows: int) -> Integers:
        """The bytes that are there in each row."""
        change = np.zeros(rows + 1, dtype=np.int64)
        np.add.at(change, np.clip(self.start, 0, rows), self.bytes)
        np.subtract.at(change, np.clip(self.end + 1, 0, rows), self.bytes)
        return np.cumsum(change)[:rows]

    def without(self, removed: Flags) -> Presences:
        """The same after some rows are taken out."""
        rows = removed.size
        before = np.concatenate(([0], np.cumsum(~removed)))
        start = np.where(self.start < 0, -1, before[np.clip(self.start, 0, rows)])
        end = np.where(self.end < 0, -1, before[np.clip(self.end + 1, 0, rows)] - 1)
        end = np.where(self.end >= rows, before[-1], np.maximum(end, start))
        return Presences(self.tensor, start, end, self.bytes, self.gap)


def presences(
    trace: Trace, gaps: GapTable, rows: Sequence, again: Reruns, timing: Run, fetch_row: Integers
) -> Presences:
    """The presences that the gaps leave."""
    tensors = trace.tensors
    swaps, codes = np.flatnonzero(gaps.swap), np.flatnonzero(gaps.decode)
    died = tensors.died[gaps.tensor]

    back = np.full(len(gaps), len(rows))
    np.minimum.at(back, rows.run_gap, rows.rerun_row[rows.run_rerun])
    back[codes] = rows.decode_row[codes]
    if swaps.size:  # held from the beginning of the copy
        begun = np.searchsorted(timing.starts, timing.in_starts, side="right") - 1
        back[swaps] = np.minimum(np.maximum(begun, fetch_row), rows.wait_row[swaps])

    leaves = rows.op_row[np.minimum(gaps.after, died)]
    leaves[codes] = rows.encode_row[codes]
    if swaps.size:  # held to the end of the copy
        copied = np.searchsorted(timing.starts, timing.out_ends, side="left") - 1
        leaves[swaps] = np.maximum(leaves[swaps], np.minimum(copied, back[swaps] - 1))

    # It stays until its next gap or its death; if that is before the op, for the recomputations before the op alone.
    following = np.where(gaps.last, died, np.roll(gaps.after, -1))
    stays = (died >= gaps.before) & (following >= gaps.before)
    chain_end = np.maximum(back, rows.wait_row)
    np.maximum.at(chain_end, rows.run_gap, rows.rerun_row[rows.run_rerun])
    used = again.read_gap >= 0
    np.maximum.at(chain_end, again.read_gap[used], rows.rerun_row[again.read[used]])
    until = np.where(gaps.last, rows.op_row[np.maximum(died, 0)], np.roll(leaves, -1))
    until = np.where(stays, until, chain_end)

    start = np.where(tensors.born < 0, -1, rows.op_row[np.maximum(tensors.born, 0)])
    end = np.where(tensors.died < 0, -1, rows.op_row[np.maximum(tensors.died, 0)])
    end[gaps.tensor[gaps.first]] = leaves[gaps.first]
    kept = ~gaps.dropped
    tensor = np.concatenate((np.arange(len(tensors)), gaps.tensor[kept]))
    starts = np.concatenate((start, back[kept]))
    ends = np.concatenate((end, until[kept]))
    order = np.lexsort((starts, tensor))
    code_bytes = np.ceil(tensors.bytes[gaps.tensor[codes]] * gaps.ratio[codes]).astype(np.int64)
    return Presences(
        tensor=np.concatenate((tensor[order], gaps.tensor[codes])),
        start=np.concatenate((starts[order], rows.encode_row[codes])),
        end=np.concatenate((ends[order], rows.decode_row[codes])),
        bytes=np.concatenate((tensors.bytes[tensor[order]], code_bytes)),
        gap=np.concatenate((np.full(order.size, -1), codes)),
    )
