"""Parts of a run that are drawn: which deserve a close-up, and how many bytes are held in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neaptide.core.control.controller import Entry
from neaptide.core.control.events import BudgetChanged
from neaptide.core.traces.columns import Integers
from neaptide.reporting.logs.records import JobRecord
from neaptide.simulation import MemorySeries

_MOST_WHOLE = 24  # iterations of the busiest job; a drawing of more iterations is a blur
_CLOSE_UP = 6.0  # length, in iterations of the slowest job


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def close_up(runs: Sequence[Sequence[JobRecord]]) -> Window | None:
    """A few iterations in the middle of the time when most jobs are present, over all runs; None for short runs."""
    records = [record for run in runs for record in run if record.arrived_ns is not None]
    if max((record.iterations for record in records), default=0) <= _MOST_WHOLE:
        return None
    changes = sorted(
        change
        for record in records
        for change in ((record.arrived_ns or 0, 1), ((record.arrived_ns or 0) + record.present_ns, -1))
    )
    present, best = 0, (0, 0, 0)  # jobs present, for how long, until when
    for (at_ns, change), (next_ns, _) in pairwise(changes):
        present += change
        best = max(best, (present, next_ns - at_ns, next_ns))
    _, lasted_ns, until_ns = best
    length_ns = round(_CLOSE_UP * max(record.job.solo_ns for record in records if record.iterations))
    start_ns = max(0, until_ns - lasted_ns // 2 - length_ns // 2)
    return Window(start_ns, start_ns + length_ns)


def whole_iterations(iterations: Mapping[str, Sequence[tuple[int, int]]], count: int = 4) -> Window | None:
    """A window of `count` whole iterations of the slowest job, in the middle of the time when all jobs iterate.

    `iterations` has the start and end of each job's iterations, in nanoseconds. If the jobs never iterate at the same
    time, the whole time of the slowest job counts. None if there are no iterations.
    """
    known = {job: sorted(each) for job, each in iterations.items() if each}
    if not known:
        return None
    slowest = max(known.values(), key=lambda each: sorted(end - start for start, end in each)[len(each) // 2])
    first_ns = max(each[0][0] for each in known.values())
    last_ns = min(each[-1][1] for each in known.values())
    shared = [(start, end) for start, end in slowest if first_ns <= start and end <= last_ns] or slowest
    begin = max((len(shared) - count) // 2, 0)
    chosen = shared[begin : begin + count]
    return Window(chosen[0][0], chosen[-1][1])


def sample(total: MemorySeries, window: Window, steps: int) -> tuple[Integers, Integers]:
    """The edges of equal steps, and for each step the time at which most is held, so that no peak is lost."""
    length_ns = window.end_ns - window.start_ns
    steps = max(1, min(steps, length_ns))
    edges = window.start_ns + np.arange(steps + 1, dtype=np.int64) * length_ns // steps
    at_ns = edges[:-1].copy()
    first = total.at_ns.searchsorted(edges[:-1], side="right")
    last = total.at_ns.searchsorted(edges[1:], side="left")
    before = level_at(total, edges[:-1])
    for step in np.flatnonzero(last > first).tolist():
        highest = int(first[step]) + int(total.held_bytes[first[step] : last[step]].argmax())
        if total.held_bytes[highest] > before[step]:
            at_ns[step] = total.at_ns[highest]
    return edges, at_ns


def level_at(series: MemorySeries, at_ns: Integers) -> Integers:
    """The bytes held at each time; zero before the first change."""
    levels = np.concatenate((np.zeros(1, dtype=np.int64), series.held_bytes))
    found: Integers = levels[series.at_ns.searchsorted(at_ns, side="right")]
    return found


def budget_over_time(initial_bytes: int, entries: Sequence[Entry]) -> MemorySeries:
    """The budget from the start of the run on, with its changes."""
    changes = [entry for entry in entries if isinstance(entry, BudgetChanged)]
    times = np.array([0, *(entry.at_ns for entry in changes)], dtype=np.int64)
    return MemorySeries(times, np.array([initial_bytes, *(entry.whole_bytes for entry in changes)], dtype=np.int64))
