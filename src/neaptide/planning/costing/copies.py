"""Two copy engines beside the ops: one to the host, one from it, each first in, first out, at the link's bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The planned ops in order, as far as time goes."""

    seconds: Floats
    host_seconds: Floats
    asynchronous: bool

    def starts(self) -> Floats:
        """When each would begin if no op had to wait for a copy."""
        if not self.asynchronous:
            return np.cumsum(self.host_seconds + self.seconds) - self.seconds
        work = np.cumsum(self.seconds) - self.seconds
        launch = np.cumsum(self.host_seconds)
        return work + np.maximum.accumulate(launch - work)


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """Swaps: the row after which each leaves, the one at which its return may begin, and the one that waits for it.

    `gone_row` waits for the copy out; -1 where nobody does.
    """

    seconds: Floats
    out_row: Integers
    fetch_row: Integers
    wait_row: Integers
    gone_row: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """When the rows began, how long those that wait waited, and when the copies were done or begun."""

    starts: Floats
    waits: Floats
    out_ends: Floats
    in_starts: Floats
    seconds: float


def latest_fetches(starts: Floats, needed: Integers, seconds: Floats) -> Floats:
    """The latest times at which copies may begin so that each has ended when row `needed` begins, one after another."""
    begins = np.empty(len(seconds))
    next_begin = np.inf
    for index in np.argsort(-needed, kind="stable").tolist():
        next_begin = min(next_begin, float(starts[needed[index]])) - float(seconds[index])
        begins[index] = next_begin
    return begins


def run(rows: Rows, copies: Copies) -> Run:
    """Let ops and copies go, each as early as its stream and what it waits for allow.

    Only rows at which something happens to a copy are looked at one by one. Waits so far have moved the work by `moved`
    (asynchronous: its beginning, if the launches did not hold it up anyway).
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
    work_at, held_up_at = [0.0, *work.tolist()], [0.0, *held_up.tolist()]  # after so many rows
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
    for row in np.flatnonzero(waits).tolist():  # a wait begins when the row before it ends
        starts[row] = work_at[row] + (max(moves[row], held_up_at[row]) if asynchronous else moves[row])
    end = float(work[-1] + shift[-1])
    return Run(starts, waits, np.array(out_ends), np.array(in_starts), end)


def _by_row(rows: Integers) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for copy, row in enumerate(rows.tolist()):
        found.setdefault(row, []).append(copy)
    return found
