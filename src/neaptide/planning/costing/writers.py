"""Which ops write which tensors of a trace, and how to gather the items of many lists at once."""

from __future__ import annotations

import numpy as np

from neaptide.core.traces.columns import Integers, Lists
from neaptide.core.traces.trace import Trace


class Writers:
    """The ops that write each tensor of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._stride = len(trace.ops) + 1
        self._keys = np.unique(trace.ops.writes.items * self._stride + trace.ops.writes.owners())

    def until(self, tensors: Integers, op: Integers) -> tuple[Integers, Integers]:
        """The writers of each tensor up to and including op `op`, as (index into `tensors`, writer)."""
        low = self._keys.searchsorted(tensors * self._stride)
        high = self._keys.searchsorted(tensors * self._stride + op, side="right")
        index, at = _joined_ranges(low, np.maximum(high - low, 0))
        return index, self._keys[at] % self._stride

    def next_at(self, tensors: Integers, op: Integers) -> Integers:
        """The first writer of each tensor at or after op `op`; the number of ops if there is none."""
        at = self._keys.searchsorted(tensors * self._stride + op)
        keys = np.append(self._keys, np.iinfo(np.int64).max)[at]
        return np.where(keys // self._stride == tensors, keys % self._stride, self._stride - 1)


def items_of(lists: Lists, positions: Integers) -> tuple[Integers, Integers]:
    """The items of the lists at some positions of a column, as (index into `positions`, item)."""
    index, at = _joined_ranges(lists.offsets[positions], lists.offsets[positions + 1] - lists.offsets[positions])
    return index, lists.items[at]


def _joined_ranges(low: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """The numbers `low[i] .. low[i] + counts[i] - 1` for every i, as (i, number)."""
    index = np.repeat(np.arange(low.size), counts)
    return index, low[index] + np.arange(index.size) - np.repeat(np.cumsum(counts) - counts, counts)
