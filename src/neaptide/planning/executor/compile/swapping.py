"""The ops at which copies out of swapped tensors end and copies in must begin, if nothing delays them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.costing.timing import fetch_ops, latest_fetches
from neaptide.planning.plan import Gap


def release_ops(trace: Trace, gaps: Sequence[Gap], device: DeviceSpec) -> list[int]:
    """For each swap, in the order of `after`: the op that runs when its copy out ends."""
    free, ops = 0.0, []
    ends = trace.end_seconds
    for gap in gaps:
        free = max(free, float(ends[gap.after])) + int(trace.tensors.bytes[gap.tensor]) / device.link_bandwidth
        ops.append(max(gap.after, int(np.searchsorted(ends, free))))
    return ops


def planned_fetch_ops(trace: Trace, gaps: Sequence[Gap], device: DeviceSpec) -> list[int]:
    """For each swap: the op with which its copy in begins. It is the plan's `fetch`, or else the latest in time."""
    starts = trace.start_seconds
    after = np.array([gap.after for gap in gaps], dtype=np.int64)
    before = np.array([gap.before for gap in gaps], dtype=np.int64)
    seconds = trace.tensors.bytes[[gap.tensor for gap in gaps]] / device.link_bandwidth
    latest = fetch_ops(starts, latest_fetches(starts, before, seconds), after, before)
    return [op if gap.fetch is None else gap.fetch for gap, op in zip(gaps, latest.tolist(), strict=True)]
