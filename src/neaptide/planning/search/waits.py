"""Waits for copies out: where memory is short, the first op that would not fit waits until a copy out has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from neaptide.core.traces.columns import Integers
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.costing.timing import RowTimes
from neaptide.planning.plan import Gap

_ROUNDS = 4


def schedule_with_waits(scheduler: Scheduler, gaps: Sequence[Gap], budget_bytes: int) -> Schedule:
    """The schedule of some gaps, with the waits for copies out that the budget needs."""
    return add_waits(scheduler, scheduler.schedule_gaps(GapTable.of(scheduler.trace, gaps)), budget_bytes)


def add_waits(scheduler: Scheduler, found: Schedule, budget_bytes: int) -> Schedule:
    """The schedule with `gone` set for the swaps that an op must wait for; its peak is as near the budget as waits get.

    A wait delays everything after it, so a schedule that still misses the budget is tried again with a lower target.
    """
    best, target = found, budget_bytes
    for _ in range(_ROUNDS):
        if best.peak_bytes <= budget_bytes or not found.gaps.swap.any():
            break
        tried = scheduler.schedule_gaps(replace(found.gaps, gone=_waits(scheduler, found, target)))
        best = tried if tried.peak_bytes < best.peak_bytes else best
        if found.held_if_copies_were_done().max() > budget_bytes:
            break
        target -= max(tried.peak_bytes - budget_bytes, 0)
    return best


def _waits(scheduler: Scheduler, found: Schedule, budget_bytes: int) -> Integers:
    """The op that waits for each gap's copy out, -1 if none needs to; by the schedule's times plus the waits so far."""
    trace, rows, table = scheduler.trace, found.rows, found.gaps
    leaving: dict[int, list[int]] = {}
    for gap in np.flatnonzero(table.swap).tolist():
        leaving.setdefault(int(rows.op_row[table.after[gap]]), []).append(gap)
    held = found.held_if_copies_were_done().tolist()
    starts = RowTimes(found.durations, found.host_seconds, trace.asynchronous).starts().tolist()
    durations, anchors = found.durations.tolist(), rows.anchor.tolist()
    sizes = trace.tensors.bytes[table.tensor].tolist()
    rate = scheduler.device.link_bandwidth
    on_the_way: deque[tuple[float, int]] = deque()
    outstanding, shift, free = 0, 0.0, 0.0
    gone = np.full(len(table), -1)
    for row, start in enumerate(starts):
        while on_the_way and (on_the_way[0][0] <= start + shift or held[row] + outstanding > budget_bytes):
            ended, gap = on_the_way.popleft()
            outstanding -= sizes[gap]
            if ended > start + shift:
                shift = ended - start
                gone[gap] = anchors[row]
        for gap in leaving.get(row, ()):
            free = max(free, start + shift + durations[row]) + sizes[gap] / rate
            on_the_way.append((free, gap))
            outstanding += sizes[gap]
    within: Integers = np.minimum(gone, table.before)
    return within
