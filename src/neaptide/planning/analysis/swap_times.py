"""When swaps would run on the link: each copy out as early, and each copy in as late, as the link allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Floats, Integers, bytes_per_row
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.idle_spans import IdleSpans


@dataclass(frozen=True, slots=True, eq=False)
class SwapTimes:
    """Times of some swaps. A tensor is absent from `out_ends` to `in_starts`; if reversed, it returns late."""

    out_ends: Floats
    in_starts: Floats
    first_free: Integers  # the first op that begins without the tensor's bytes
    last_free: Integers  # the last op that ends before its bytes return; less than `first_free` if there is none

    @property
    def free_seconds(self) -> Floats:
        """Capuchin's FreeTime with a shared link; if negative, the time for which an op waits for the swap."""
        return self.in_starts - self.out_ends


def swap_times(trace: Trace, device: DeviceSpec, spans: IdleSpans, chosen: Sequence[int]) -> SwapTimes:
    """The times of swapping the chosen spans; each direction makes one copy at a time."""
    rows = np.array(chosen, dtype=np.int64)
    tensors, after, before = spans.tensor[rows], spans.after[rows], spans.before[rows]
    starts, ends = trace.start_seconds, trace.end_seconds
    seconds = trace.tensors.bytes[tensors] / device.link_bandwidth
    out_ends, in_starts = np.empty(tensors.size), np.empty(tensors.size)
    order = np.argsort(after, kind="stable")
    done = np.cumsum(seconds[order])
    # A copy out begins when its op has run and the previous copy has ended.
    out_ends[order] = done + np.maximum.accumulate(ends[after[order]] - (done - seconds[order]))
    # Backwards in time: a copy in ends when it is needed or when the next copy has to begin.
    order = np.argsort(before, kind="stable")[::-1]
    done = np.cumsum(seconds[order])
    in_starts[order] = np.minimum.accumulate(starts[before[order]] + (done - seconds[order])) - done
    first = np.maximum(np.searchsorted(starts, out_ends), after + 1)
    last = np.minimum(np.searchsorted(ends, in_starts, side="right"), before) - 1
    return SwapTimes(out_ends, in_starts, first, last)


def hidden_swaps(
    trace: Trace, device: DeviceSpec, spans: IdleSpans, order: Iterable[int], target_bytes: int
) -> tuple[list[int], list[int]]:
    """Spans that lower an op above the target, taken in the given order: those whose swaps hide, and the others.

    A swap hides if no op waits for it or for those chosen before.
    """
    chosen: list[int] = []
    others: list[int] = []
    over = trace.held_bytes > target_bytes
    for row in order:
        if not over[spans.after[row] + 1 : spans.before[row]].any():
            continue
        times = swap_times(trace, device, spans, [*chosen, row])
        if (times.free_seconds >= 0).all() and over[times.first_free[-1] : times.last_free[-1] + 1].any():
            chosen.append(row)
            held = held_without(trace.held_bytes, times.first_free, times.last_free, spans.bytes[chosen])
            over = held > target_bytes
        else:
            others.append(row)
    return chosen, others


def held_without(held: Integers, first: Integers, last: Integers, sizes: Integers) -> Integers:
    """The bytes held in each op when tensors are absent from op `first` to op `last`, both included."""
    away = first <= last
    return held - bytes_per_row(first[away], last[away], sizes[away], held.size)
