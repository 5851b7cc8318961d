"""What a program will need, as `apply` counts it, but with swapped tensors held until the moment of their release.

`apply` counts a swapped tensor as released when its copy out has ended; the executor releases it at a later moment.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.apply import Summary, summary_of
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.plan import Plan


def predict(trace: Trace, plan: Plan, device: DeviceSpec) -> Summary:
    """The figures of the plan that a program carries out."""
    schedule = Scheduler(trace, device).schedule(plan)
    return replace(summary_of(trace, plan, device), peak_bytes=_peak_bytes(schedule))


def _peak_bytes(schedule: Schedule) -> int:
    gaps, rows, there = schedule.gaps, schedule.rows, schedule.presences
    swaps = np.flatnonzero(gaps.swap & (rows.gone_row >= 0))
    which = schedule.left_by(swaps)
    end = there.end.copy()
    end[which] = np.maximum(end[which], rows.gone_row[swaps])
    held = replace(there, end=end).held_bytes(len(rows)) + schedule.scratch_bytes
    return int(held[schedule.kept].max())
