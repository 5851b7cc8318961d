"""What a plan costs: the rows of the planned iteration, their times, and the bytes that each holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Flags, Floats, Integers
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.presences import Presences, find_presences
from neaptide.planning.costing.reruns import Reruns, find_reruns
from neaptide.planning.costing.rows import DECODE, ENCODE, ORIGINAL, RERUN, WAIT, Rows, planned_rows
from neaptide.planning.costing.timing import Copies, RowTimes, Timing, compute_timing, fetch_ops, latest_fetches
from neaptide.planning.costing.writers import Writers
from neaptide.planning.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A planned iteration. Its rows include waits of zero length."""

    gaps: GapTable
    rows: Rows
    reruns: Reruns
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
        """The bytes held in each row; in the kept rows, those of the planned trace."""
        kept = self.kept
        held = self.presences.without(~kept).held_bytes(int(kept.sum()))
        spread: Integers = held[np.cumsum(kept) - 1] + self.scratch_bytes
        return spread

    def left_by(self, swaps: Integers) -> Integers:
        """The presence that each swap gap ends."""
        return self.presences.latest(self.gaps.tensor[swaps], self.rows.op_row[self.gaps.after[swaps]])

    def held_if_copies_were_done(self) -> Integers:
        """The bytes held in each row if every copy out took no time."""
        swaps = np.flatnonzero(self.gaps.swap)
        there, which = self.presences, self.left_by(swaps)
        end = there.end.copy()
        left = self.rows.op_row[self.gaps.after[swaps]]
        end[which] = np.maximum(np.minimum(end[which], left), there.start[which])
        return replace(there, end=end).held_bytes(len(self.rows)) + self.scratch_bytes

    @property
    def kept(self) -> Flags:
        """The rows without waits of zero length."""
        found: Flags = (self.rows.stage != WAIT) | (self.durations > 0)
        return found


class Scheduler:
    """Computes schedules of plans of one trace on one device; it keeps what all of them need."""

    def __init__(self, trace: Trace, device: DeviceSpec) -> None:
        self.trace, self.device = trace, device
        self.writers = Writers(trace)

    def schedule(self, plan: Plan) -> Schedule:
        """The schedule of a plan; ValueError if it is not a plan, or has an order: that takes the reordered trace.

        Only `apply` finds ops that read absent tensors.
        """
        if plan.order:
            raise ValueError("a plan with an order is scheduled by `apply` or `summary_of`, which reorder the trace")
        return self.schedule_gaps(GapTable.of(self.trace, plan.gaps))

    def schedule_gaps(self, gaps: GapTable) -> Schedule:
        """The schedule of a table of gaps."""
        trace = self.trace
        rows = planned_rows(trace, gaps, self.writers)
        reruns = find_reruns(trace, gaps, rows, self.writers)
        costs = self._costs(gaps, rows)
        timing, fetch_row = self._timing(costs, gaps, rows)
        runs = (rows.stage == RERUN) | (rows.stage == ORIGINAL)
        scratch = np.zeros(len(rows), dtype=np.int64)
        scratch[runs] = trace.ops.scratch_bytes[rows.item[runs]]
        scratch[rows.rerun_row] += reruns.unused_bytes
        return Schedule(
            gaps=gaps,
            rows=rows,
            reruns=reruns,
            presences=find_presences(trace, gaps, rows, reruns, timing, fetch_row),
            durations=costs.seconds + timing.waits,
            host_seconds=costs.host_seconds,
            scratch_bytes=scratch,
            seconds=timing.seconds,
            waited_seconds=float(timing.waits.sum()),
        )

    def _costs(self, gaps: GapTable, rows: Rows) -> RowTimes:
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
        return RowTimes(seconds, host, self.trace.asynchronous)

    def _timing(self, costs: RowTimes, gaps: GapTable, rows: Rows) -> tuple[Timing, Integers]:
        """The times of the rows and of the swaps, and the row at which each swap's copy in may begin."""
        swaps = np.flatnonzero(gaps.swap)
        starts = costs.starts()
        if swaps.size == 0:
            end = float(starts[-1] + costs.seconds[-1])
            return Timing(starts, np.zeros(starts.size), np.empty(0), np.empty(0), end), swaps
        seconds = self.trace.tensors.bytes[gaps.tensor[swaps]] / self.device.link_bandwidth
        after, before, fetch = gaps.after[swaps], gaps.before[swaps], gaps.fetch[swaps]
        late = np.flatnonzero(fetch < 0)  # indexing has copied `fetch`
        begins = latest_fetches(starts, rows.group_row[before[late]], seconds[late])
        fetch[late] = fetch_ops(starts[rows.op_row[:-1]], begins, after[late], before[late])
        fetch_row = rows.group_row[fetch]
        # Copies that may begin at the same row run in the order in which they are needed.
        order = np.lexsort((before, fetch_row))
        copies = Copies(
            seconds=seconds[order],
            out_row=rows.op_row[after[order]],
            fetch_row=fetch_row[order],
            wait_row=rows.wait_row[swaps[order]],
            gone_row=rows.gone_row[swaps[order]],
        )
        timing = compute_timing(costs, copies)
        place = np.argsort(order)
        return replace(timing, out_ends=timing.out_ends[place], in_starts=timing.in_starts[place]), fetch_row
