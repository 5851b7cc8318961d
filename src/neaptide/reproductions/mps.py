"""MPS with a limit: a job that may use only a share of the SMs, so that it disturbs a more important job less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace

_SMS_FOR_BANDWIDTH = 0.5  # about half of the SMs can use all of the memory bandwidth


def on_part(trace: Trace, share: float, device: DeviceSpec) -> Trace:
    """The trace on a share of the SMs: kernels that fill more SMs slow down, bandwidth-bound kernels half as much."""
    ops = trace.ops
    bandwidth_bound = ops.moved_bytes / device.bandwidth > ops.flops / device.matrix_flops
    enough = np.where(bandwidth_bound, share / _SMS_FOR_BANDWIDTH, share)
    slower = np.maximum(1.0, ops.fill / enough)
    return replace(trace, ops=replace(ops, seconds=ops.seconds * slower, fill=np.minimum(ops.fill, share)))
