"""Capuchin (ASPLOS'20): swap what the link hides, then take the cheaper of swapping and recomputing.

- FreeTime = (back access - swap time) - (evicted access + swap time), where all swaps chosen so far share the link.
  Candidates are taken by falling FreeTime and swapped as long as no FreeTime is negative: such swaps cost nothing.
- Other candidates are taken by their cost per byte. The cost is the smaller of the wait that a swap adds and the
  seconds of recomputation (bytes per second is the paper's MSPS). A choice lengthens later recomputations that would
  have read the tensor, so a candidate's cost is computed anew when its turn comes.
- Feedback: the trigger of a late copy in moves earlier, as long as the budget allows it and it saves time.

Only candidates that are absent during an op above the budget are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Flags
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.idle_spans import idle_spans
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.analysis.swap_times import SwapTimes, held_without, hidden_swaps, swap_times
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.costing.timing import fetch_ops
from neaptide.planning.plan import Gap, Plan, Return
from neaptide.planning.search.within_budget import plan_within_budget

_FEEDBACK_ROUNDS = 6


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """Swap and recompute by Capuchin's rules."""
    scheduler = Scheduler(trace, device)
    hybrid = _Hybrid(trace, device)
    return _with_earlier_triggers(
        scheduler, plan_within_budget("capuchin", scheduler, budget_bytes, hybrid.gaps), budget_bytes
    )


class _Hybrid:
    """Capuchin's choice between swapping and recomputing, for one trace."""

    def __init__(self, trace: Trace, device: DeviceSpec) -> None:
        self._trace, self._device = trace, device
        self._spans = idle_spans(trace)
        self._chains = RecomputeChains(trace)
        every = np.arange(len(self._spans))
        seconds = self._spans.bytes / device.link_bandwidth
        ends = trace.end_seconds
        self._starts = trace.start_seconds
        free_seconds = self._starts[self._spans.before] - ends[self._spans.after] - 2 * seconds
        self._by_free_seconds: list[int] = every[np.argsort(-free_seconds, kind="stable")].tolist()

    def gaps(self, target_bytes: int) -> Iterator[Sequence[Gap]]:
        """The gaps of Capuchin's choice, then of variants of it as alternatives.

        The variants use only the spans from the forward to the backward pass, use only swaps, or release the sources of
        recomputations again.
        """
        for within_backward, stay, hybrid in ((1, 1, 1), (0, 1, 1), (1, 1, 0), (1, 0, 1)):
            swapped, recomputed = self._chosen(target_bytes, bool(within_backward), bool(hybrid))
            made = [self._spans.gap(index, Return.SWAP) for index in swapped]
            made += [self._spans.gap(index, Return.RECOMPUTE) for index in recomputed]
            with suppress(CannotRecomputeError):
                yield self._chains.complete(made, bool(stay))

    def _chosen(self, target_bytes: int, within_backward: bool, hybrid: bool) -> tuple[list[int], list[int]]:
        order = [index for index in self._by_free_seconds if within_backward or self._spans.first[index]]
        hidden, late = hidden_swaps(self._trace, self._device, self._spans, order, target_bytes)
        over = self._over(hidden, [], target_bytes)
        swapped, recomputed = list(hidden), list[int]()
        queue = [(0.0, index) for index in late]
        heapify(queue)
        while queue and over.any():
            _, index = heappop(queue)
            if not self._helps(index, over):
                continue
            cost, how = self._cost(index, swapped, recomputed if hybrid else None, over)
            if queue and cost > queue[0][0]:
                heappush(queue, (cost, index))
                continue
            (swapped if how is Return.SWAP else recomputed).append(index)
            over = self._over(hidden, [*swapped[len(hidden) :], *recomputed], target_bytes)
        return swapped, recomputed

    def _cost(self, index: int, swapped: list[int], recomputed: list[int] | None, over: Flags) -> tuple[float, Return]:
        """The seconds per byte of the cheaper way, and that way; only swaps count if `recomputed` is None."""
        spans, before = self._spans, int(self._spans.before[index])
        times = self._times([*swapped, index])
        # An op without room waits for the copy out; the op that uses the tensor waits for the copy in.
        first = int(spans.after[index]) + 1 + int(over[spans.after[index] + 1 : before].argmax())
        waits = max(float(times.out_ends[-1] - self._starts[first]), 0.0) - float(
            np.minimum(times.free_seconds, 0).sum()
        )
        if swapped:
            waits += float(np.minimum(self._times(swapped).free_seconds, 0).sum())
        ways = [(max(waits, 0.0), Return.SWAP)]
        if recomputed is not None:
            ops = self._chains.ops(int(spans.tensor[index]), before, spans.absent(recomputed, before))
            ways += [] if ops is None else [(self._chains.seconds(ops), Return.RECOMPUTE)]
        seconds, how = min(ways, key=lambda way: way[0])
        return seconds / float(spans.bytes[index]), how

    def _times(self, chosen: list[int]) -> SwapTimes:
        return swap_times(self._trace, self._device, self._spans, chosen)

    def _helps(self, index: int, over: Flags) -> bool:
        spans = self._spans
        return bool(over[spans.after[index] + 1 : spans.before[index]].any())

    def _over(self, hidden: list[int], others: list[int], target_bytes: int) -> Flags:
        """The ops that hold more than the target if hidden spans are swapped and the others are absent throughout."""
        spans, held = self._spans, self._trace.held_bytes
        if hidden:
            times = self._times(hidden)
            held = held_without(held, times.first_free, times.last_free, spans.bytes[hidden])
        if others:
            held = held_without(held, spans.after[others] + 1, spans.before[others] - 1, spans.bytes[others])
        return held > target_bytes


def _with_earlier_triggers(scheduler: Scheduler, plan: Plan, budget_bytes: int) -> Plan:
    """The plan with the triggers of late copies in moved earlier by their delay, repeated while that saves time."""
    trace, device = scheduler.trace, scheduler.device
    starts = trace.start_seconds
    best = scheduler.schedule(plan)
    for _ in range(_FEEDBACK_ROUNDS):
        table = best.gaps
        waited = {
            (int(table.tensor[row]), int(table.after[row])): float(best.durations[best.rows.wait_row[row]])
            for row in np.flatnonzero(table.swap).tolist()
        }
        moved = []
        for gap in plan.gaps:
            late = waited.get((gap.tensor, gap.after), 0.0)
            if gap.back is Return.SWAP and late > 0:
                copied = float(trace.tensors.bytes[gap.tensor]) / device.link_bandwidth
                begins = starts[gap.before] - copied if gap.fetch is None else starts[gap.fetch]
                gap = replace(gap, fetch=int(fetch_ops(starts, begins - late, gap.after, gap.before)))
            moved.append(gap)
        tried = replace(plan, gaps=tuple(moved))
        schedule = scheduler.schedule(tried)
        if schedule.peak_bytes > budget_bytes or schedule.seconds >= best.seconds:
            break
        plan, best = tried, schedule
    return plan
