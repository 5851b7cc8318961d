"""When the rows of a planned iteration and its copies run.

Two copy engines work beside the ops, one to the host and one from it. Each takes its copies first in, first out, at the
link's bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class RowTimes:
    """What each row takes on the device and on the host."""

    seconds: Floats
    host_seconds: Floats
    asynchronous: bool

    def starts(self) -> Floats:
        """When each row would begin if no op had to wait for a copy."""
        if not self.asynchronous:
            return np.cumsum(self.host_seconds + self.seconds) - self.seconds
        work = np.cumsum(self.seconds) - self.seconds
        launch = np.cumsum(self.host_seconds)
        return work + np.maximum.accumulate(launch - work)


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """The two copies of each swap."""

    seconds: Floats  # of one copy
    out_row: Integers  # the copy out begins after this row
    fetch_row: Integers  # the copy in may begin at this row
    wait_row: Integers  # this row waits for the copy in
    gone_row: Integers  # this row waits for the copy out; -1 if none does


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """When the rows and the copies run."""

    starts: Floats  # of the rows
    waits: Floats  # seconds that each row waits for copies
    out_ends: Floats  # of the copies out
    in_starts: Floats  # of the copies in
    seconds: float  # of the iteration


def latest_fetches(starts: Floats, needed: Integers, seconds: Floats) -> Floats:
    """The latest times at which copies, made one by one, may begin so that each ends before row `needed` begins."""
    begins = np.empty(len(seconds))
    next_begin = np.inf
    for index in np.argsort(-needed, kind="stable").tolist():
        next_begin = min(next_begin, float(starts[needed[index]])) - float(seconds[index])
        begins[index] = next_begin
    return begins


def fetch_ops(starts: Floats, begins: Floats | float, after: Integers | int, before: Integers | int) -> Integers:
    """The op that runs when each copy in begins, kept within its gap; ops begin at `starts`, copies at `begins`."""
    found: Integers = np.clip(np.searchsorted(starts, begins, side="right") - 1, after + 1, before)
    return found


def compute_timing(rows: RowTimes, copies: Copies) -> Timing:
    """Run ops and copies, each as early as its stream and what it waits for allow.

    Only rows at which a copy begins or is waited for are visited one by one. `moved` is by how much waits have delayed
    the work so far; on an asynchronous device, launches may have delayed it by more.
    """
    work, launch = np.cumsum(rows.seconds), np.cumsum(rows.host_seconds)
    asynchronous = rows.asynchronous
    if asynchronous:
        held_up = np.maximum.accumulate(launch - (work - rows.seconds))
    else:
        work, held_up = work + launch, np.zeros(work.size)
    leaving, fetched, awaited, gone = (
        _by_row(column) for column in (copies.out_row, copies.fetch_row, copies.wait_row, copies.gone_row)
    )
    gone.pop(-1, None)
    events = sorted({*leaving, *fetched, *awaited, *gone})
    work_at, held_up_at = [0.0, *work.tolist()], [0.0, *held_up.tolist()]  # after the first n rows
    launch_at, host = launch.tolist(), rows.host_seconds.tolist()
    durations = copies.seconds.tolist()
    out_ends, in_starts, in_ends = ([0.0] * len(durations) for _ in range(3))
    out_free = in_free = moved = 0.0
    waits, moves = np.zeros(work.size), np.zeros(work.size + 1)
    for row in events:
        end = work_at[row] + (max(moved, held_up_at[row]) if asynchronous else moved)
        for copy in fetched.get(row, ()):
            in_starts[copy] = max(in_free, end, out_ends[copy])
            in_free = in_ends[copy] = in_starts[copy] + durations[copy]
        if row in awaited or row in gone:
            arrival = max(
                *(in_ends[copy] for copy in awaited.get(row, ())),
                *(out_ends[copy] for copy in gone.get(row, ())),
                0.0,
                0.0,
            )
            ready = max(end, launch_at[row + 1]) if asynchronous else end + host[row + 1]
            if arrival > ready:
                waits[row] = arrival - (end if asynchronous else ready)
                moved = arrival - work_at[row] if asynchronous else moved + waits[row]
                moves[row + 1] = moved
        if row in leaving:
            end = work_at[row + 1] + (max(moved, held_up_at[row + 1]) if asynchronous else moved)
            for copy in leaving[row]:
                out_free = out_ends[copy] = max(out_free, end) + durations[copy]
    moves = np.maximum.accumulate(moves)[:-1]
    shift = np.maximum(moves, held_up) if asynchronous else moves
    starts = work - rows.seconds + shift
    for row in np.flatnonzero(waits).tolist():  # a waiting row begins when the row before it ends
        starts[row] = work_at[row] + (max(moves[row], held_up_at[row]) if asynchronous else moves[row])
    end = float(work[-1] + shift[-1])
    return Timing(starts, waits, np.array(out_ends), np.array(in_starts), end)


def _by_row(rows: Integers) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for copy, row in enumerate(rows.tolist()):
        found.setdefault(row, []).append(copy)
    return found
