"""What a plan costs: the rows of the planned iteration with their times, and the bytes that each holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Flags, Floats, Integers
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.copies import Copies, Rows, Run, latest_fetches, run
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.presences import Presences, presences
from neaptide.planning.costing.reruns import Reruns, reruns
from neaptide.planning.costing.sequence import DECODE, ENCODE, ORIGINAL, RERUN, WAIT, Sequence, Writers, sequence
from neaptide.planning.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A planned iteration. Waits of no length are among its rows."""

    gaps: GapTable
    rows: Sequence
    again: Reruns
    presences: Presences
    durations: Floats  # of each row, waiting included
    host_seconds: Floats
    scratch_bytes: Integers
    seconds: float
    waited_seconds: float

    @property
    def peak_bytes(self) -> int:
        return int(self.held_bytes[self.kept].max())

    @property
    def held_bytes(self) -> Integers:
        """The bytes of each row; those of the planned trace in the rows that are kept."""
        kept = self.kept
        held = self.presences.without(~kept).held_bytes(int(kept.sum()))
        spread: Integers = held[np.cumsum(kept) - 1] + self.scratch_bytes
        return spread

    def held_if_copies_were_done(self) -> Integers:
        """The bytes of each row if every copy out took no time."""
        swaps = np.flatnonzero(self.gaps.swap)
        there = self.presences
        left = self.rows.op_row[self.gaps.after[swaps]]
        stride = len(self.rows) + 2
        plain = there.gap < 0
        keys = there.tensor[plain] * stride + there.start[plain] + 1
        which = np.searchsorted(keys, self.gaps.tensor[swaps] * stride + left + 1, side="right") - 1
        end = there.end.copy()
        end[which] = np.maximum(np.minimum(end[which], left), there.start[which])
        return replace(there, end=end).held_bytes(len(self.rows)) + self.scratch_bytes

    @property
    def kept(self) -> Flags:
        """The rows but for waits of no length."""
        found: Flags = (self.rows.stage != WAIT) | (self.durations > 0)
        return found


class Scheduler:
    """Schedules plans of one trace on one device; it keeps what all of them need."""

    def __init__(self, trace: Trace, device: DeviceSpec) -> None:
        self.trace, self.device = trace, device
        self.writers = Writers(trace)

    def schedule(self, plan: Plan) -> Schedule:
        """The plan carried out; ValueError if it cannot be. Ops that read what is absent are found by `apply` alone."""
        return self.carried_out(GapTable.of(self.trace, plan.gaps))

    def carried_out(self, gaps: GapTable) -> Schedule:
        """The same from a table of gaps."""
        trace = self.trace
        rows = sequence(trace, gaps, self.writers)
        again = reruns(trace, gaps, rows, self.writers)
        costs = self._costs(gaps, rows)
        timing, fetch_row = self._run(costs, gaps, rows)
        runs = (rows.stage == RERUN) | (rows.stage == ORIGINAL)
        scratch = np.zeros(len(rows), dtype=np.int64)
        scratch[runs] = trace.ops.scratch_bytes[rows.item[runs]]
        scratch[rows.rerun_row] += again.unused_bytes
        return Schedule(
            gaps=gaps,
            rows=rows,
            again=again,
            presences=presences(trace, gaps, rows, again, timing, fetch_row),
            durations=costs.seconds + timing.waits,
            host_seconds=costs.host_seconds,
            scratch_bytes=scratch,
            seconds=timing.seconds,
            waited_seconds=float(timing.waits.sum()),
        )

    def _costs(self, gaps: GapTable, rows: Sequence) -> Rows:
        ops, device = self.trace.ops, self.device
        runs = (rows.stage == RERUN) | (rows.stage == ORIGINAL)
        codes = (rows.stage == ENCODE) | (rows.stage == DECODE)
        seconds, host = np.zeros(len(rows)), np.zeros(len(rows))
        seconds[runs], host[runs] = ops.seconds[rows.item[runs]], ops.host_seconds[rows.item[runs]]
        coded = rows.item[codes]
        moved = self.trace.tensors.bytes[gaps.tensor[coded]] * (1 + gaps.ratio[coded])
        seconds[codes] = np.maximum(moved / (device.bandwidth * device.bandwidth_efficiency), device.kernel_seconds)
        host[codes] = device.host_seconds
        for ends in (gaps.after, gaps.before):
            np.add.at(host, rows.op_row[ends[gaps.swap]], device.swap_seconds / 2)
        return Rows(seconds, host, self.trace.asynchronous)

    def _run(self, costs: Rows, gaps: GapTable, rows: Sequence) -> tuple[Run, Integers]:
        """The times of the rows and of the swaps, and the row from which each swap may come back."""
        swaps = np.flatnonzero(gaps.swap)
        starts = costs.starts()
        if swaps.size == 0:
            end = float(starts[-1] + costs.seconds[-1])
            return Run(starts, np.zeros(starts.size), np.empty(0), np.empty(0), end), swaps
        seconds = self.trace.tensors.bytes[gaps.tensor[swaps]] / self.device.link_bandwidth
        after, before, fetch = gaps.after[swaps], gaps.before[swaps], gaps.fetch[swaps]
        late = np.flatnonzero(fetch < 0)  # `fetch` is a copy
        begins = latest_fetches(starts, rows.group_row[before[late]], seconds[late])
        found = np.searchsorted(starts[rows.op_row[:-1]], begins, side="right") - 1
        fetch[late] = np.clip(found, after[late] + 1, before[late])
        fetch_row = rows.group_row[fetch]
        # Copies that may begin at the same row go in the order in which they are needed.
        order = np.lexsort((before, fetch_row))
        copies = Copies(
            seconds=seconds[order],
            out_row=rows.op_row[after[order]],
            fetch_row=fetch_row[order],
            wait_row=rows.wait_row[swaps[order]],
            gone_row=rows.gone_row[swaps[order]],
        )
        timing = run(costs, copies)
        place = np.argsort(order)
        back = Run(timing.starts, timing.waits, timing.out_ends[place], timing.in_starts[place], timing.seconds)
        return back, fetch_row
