"""When the copies of swapped tensors are done, and when the copies back must begin, if nothing delays them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.plan import Gap


def release_ops(trace: Trace, gaps: Sequence[Gap], device: DeviceSpec) -> list[int]:
    """For each swap, in the order of `after`: the op that runs when its copy to the host ends."""
    free, ops = 0.0, []
    ends = trace.end_seconds
    for gap in gaps:
        free = max(free, float(ends[gap.after])) + int(trace.tensors.bytes[gap.tensor]) / device.link_bandwidth
        ops.append(max(gap.after, int(np.searchsorted(ends, free))))
    return ops


def fetch_ops(trace: Trace, gaps: Sequence[Gap], device: DeviceSpec) -> list[int]:
    """For each swap: the op with which its copy back begins; the plan's, or the latest that is in time."""
    starts = trace.end_seconds - trace.ops.seconds
    found = [0] * len(gaps)
    following = np.inf
    for index in sorted(range(len(gaps)), key=lambda index: -gaps[index].before):
        gap = gaps[index]
        seconds = int(trace.tensors.bytes[gap.tensor]) / device.link_bandwidth
        following = min(following, float(starts[gap.before])) - seconds
        latest = int(np.searchsorted(starts, following, side="right")) - 1
        found[index] = min(max(latest, gap.after + 1), gap.before) if gap.fetch is None else gap.fetch
    return found
