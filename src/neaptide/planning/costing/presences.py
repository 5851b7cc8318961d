"""Which rows of a planned iteration each tensor is on the device for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Integers, bytes_per_row
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.reruns import Reruns
from neaptide.planning.costing.rows import Rows
from neaptide.planning.costing.timing import Timing


@dataclass(frozen=True, slots=True, eq=False)
class Presences:
    """Stays of tensors and of codes on the device, from row `start` to row `end`, both included.

    Tensors come first, ordered by (tensor, start); codes follow.
    """

    tensor: Integers
    start: Integers
    end: Integers
    bytes: Integers
    gap: Integers  # of a code: the gap that it belongs to; else -1

    def held_bytes(self, rows: int) -> Integers:
        """The bytes held in each row."""
        return bytes_per_row(self.start, self.end, self.bytes, rows)

    def latest(self, tensor: Integers, row: Integers) -> Integers:
        """The index of the tensor's last presence that starts at or before a row.

        If there is none, the index is meaningless (another tensor's, or -1): check `self.tensor[index] == tensor`.
        """
        plain = self.gap < 0
        stride = 3 + int(max(self.start.max(initial=0), row.max(initial=0)))
        keys = self.tensor[plain] * stride + self.start[plain] + 1
        return np.searchsorted(keys, tensor * stride + row + 1, side="right") - 1

    def without(self, removed: Flags) -> Presences:
        """The same presences after some rows are removed."""
        rows = removed.size
        before = np.concatenate(([0], np.cumsum(~removed)))
        start = np.where(self.start < 0, -1, before[np.clip(self.start, 0, rows)])
        end = np.where(self.end < 0, -1, before[np.clip(self.end + 1, 0, rows)] - 1)
        end = np.where(self.end >= rows, before[-1], np.maximum(end, start))
        return Presences(self.tensor, start, end, self.bytes, self.gap)


def find_presences(
    trace: Trace, gaps: GapTable, rows: Rows, reruns: Reruns, timing: Timing, fetch_row: Integers
) -> Presences:
    """The presences of all tensors and codes; a swap's copy in may begin at its `fetch_row`."""
    tensors = trace.tensors
    swaps, codes = np.flatnonzero(gaps.swap), np.flatnonzero(gaps.decode)
    died = tensors.died[gaps.tensor]

    back = np.full(len(gaps), len(rows))
    np.minimum.at(back, rows.run_gap, rows.rerun_row[rows.run_rerun])
    back[codes] = rows.decode_row[codes]
    if swaps.size:  # a tensor is held from the beginning of its copy in
        begun = np.searchsorted(timing.starts, timing.in_starts, side="right") - 1
        back[swaps] = np.minimum(np.maximum(begun, fetch_row), rows.wait_row[swaps])

    leaves = rows.op_row[np.minimum(gaps.after, died)]
    leaves[codes] = rows.encode_row[codes]
    if swaps.size:  # a tensor is held to the end of its copy out
        copied = np.searchsorted(timing.starts, timing.out_ends, side="left") - 1
        leaves[swaps] = np.maximum(leaves[swaps], np.minimum(copied, back[swaps] - 1))

    # A returned tensor stays until its next gap or its death. If those precede the op, it stays only for the
    # recomputations before the op.
    following = np.where(gaps.last, died, np.roll(gaps.after, -1))
    stays = (died >= gaps.before) & (following >= gaps.before)
    chain_end = np.maximum(back, rows.wait_row)
    np.maximum.at(chain_end, rows.run_gap, rows.rerun_row[rows.run_rerun])
    used = reruns.read_gap >= 0
    np.maximum.at(chain_end, reruns.read_gap[used], rows.rerun_row[reruns.read[used]])
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
