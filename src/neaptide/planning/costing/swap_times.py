"""When swaps leave and come back if each goes as early, or as late, as the link allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Floats, Integers
from neaptide.core.traces.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Swaps:
    """Times of some swaps. Each is away from `out_ends` to `in_starts`; where that is no time, it comes back late."""

    out_ends: Floats
    in_starts: Floats
    first_free: Integers  # the first op that begins without its bytes
    last_free: Integers  # the last op that ends before its bytes are back; less than `first_free` if there is none

    @property
    def free_seconds(self) -> Floats:
        """Capuchin's FreeTime, with the link shared: negative is what the swap makes an op wait."""
        return self.in_starts - self.out_ends


def swaps(trace: Trace, device: DeviceSpec, tensors: Integers, after: Integers, before: Integers) -> Swaps:
    """The times of swapping these tensors out after ops and in before ops, each direction one after another."""
    ends = trace.end_seconds
    starts = ends - trace.ops.seconds
    seconds = trace.tensors.bytes[tensors] / device.link_bandwidth
    out_ends, in_starts = np.empty(tensors.size), np.empty(tensors.size)
    order = np.argsort(after, kind="stable")
    done = np.cumsum(seconds[order])
    # Each copy out begins when its op has run and the copy before it is done.
    out_ends[order] = done + np.maximum.accumulate(ends[after[order]] - (done - seconds[order]))
    # The same backwards in time: each copy in ends when it is needed or the next one has to begin.
    order = np.argsort(before, kind="stable")[::-1]
    done = np.cumsum(seconds[order])
    in_starts[order] = np.minimum.accumulate(starts[before[order]] + (done - seconds[order])) - done
    first = np.maximum(np.searchsorted(starts, out_ends), after + 1)
    last = np.minimum(np.searchsorted(ends, in_starts, side="right"), before) - 1
    return Swaps(out_ends, in_starts, first, last)


def held_without(held_bytes: Integers, first: Integers, last: Integers, sizes: Integers) -> Integers:
    """The bytes held in each op when some are away from op `first` to op `last`, both included."""
    change = np.zeros(held_bytes.size + 1, dtype=np.int64)
    away = first <= last
    np.subtract.at(change, first[away], sizes[away])
    np.add.at(change, last[away] + 1, sizes[away])
    return held_bytes + np.cumsum(change)[:-1]
