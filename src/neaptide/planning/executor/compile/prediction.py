"""What a program will need: `apply`'s account, with swapped tensors held until the moment at which they are let go.

`apply` counts a swapped tensor as gone when its copy has ended; the executor lets it go at a moment after that.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.apply import Summary, summary_of
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.plan import Plan


def predicted(trace: Trace, plan: Plan, device: DeviceSpec) -> Summary:
    """The figures of a program's plan."""
    schedule = Scheduler(trace, device).schedule(plan)
    return replace(summary_of(trace, plan, device), peak_bytes=_peak_bytes(schedule))


def _peak_bytes(schedule: Schedule) -> int:
    gaps, rows, there = schedule.gaps, schedule.rows, schedule.presences
    swaps = np.flatnonzero(gaps.swap & (rows.gone_row >= 0))
    plain = there.gap < 0
    stride = len(rows) + 2
    keys = there.tensor[plain] * stride + there.start[plain] + 1
    left = rows.op_row[gaps.after[swaps]]
    which = np.searchsorted(keys, gaps.tensor[swaps] * stride + left + 1, side="right") - 1
    end = there.end.copy()
    end[which] = np.maximum(end[which], rows.gone_row[swaps])
    held = replace(there, end=end).held_bytes(len(rows)) + schedule.scratch_bytes
    return int(held[schedule.kept].max())
