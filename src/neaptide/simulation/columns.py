"""A trace as the native engine reads it: whole nanoseconds and bytes, an array per fact."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Floats, Integers, bytes_per_row
from neaptide.core.traces.trace import Trace
from neaptide.simulation import library
from neaptide.simulation.contention import demands_of

# The native engine counts work in 2^-22 ns in 64 bits.
LONGEST_OP_SECONDS = 1000.0


@dataclass(frozen=True, eq=False)
class PlanColumns:
    """The arrays that a native plan points into; they must live as long as the plan."""

    host_ns: Integers
    work_ns: Integers
    ends_ns: Integers
    level: Integers
    between: Integers
    still_peak: Integers
    moved_bytes: Integers
    compute: Floats
    bandwidth: Floats
    fill: Floats
    heavy: npt.NDArray[np.uint8]
    last_forward: int
    persistent: int
    asynchronous: bool

    @classmethod
    def of(cls, trace: Trace, device: DeviceSpec) -> PlanColumns:
        """Read a trace. Running sums of times are rounded, so rounding errors do not add up over an iteration."""
        ops, persistent = trace.ops, trace.persistent_bytes
        if float(ops.seconds.max()) > LONGEST_OP_SECONDS:
            raise ValueError(
                f"trace {trace.name}: an op of {ops.seconds.max():.0f} s is too long; "
                f"the simulator takes at most {LONGEST_OP_SECONDS:.0f} s"
            )
        level = np.maximum(trace.held_bytes - persistent, 0)
        compute, bandwidth, fill = demands_of(trace, device)
        forward = trace.forward_end
        return cls(
            host_ns=_rounded(ops.host_seconds),
            work_ns=_rounded(ops.seconds),
            ends_ns=trace.ends_ns,
            level=level,
            between=np.minimum(_between(trace, persistent), level),
            still_peak=np.ascontiguousarray(np.maximum.accumulate(level[::-1])[::-1]),
            moved_bytes=np.ascontiguousarray(ops.moved_bytes),
            compute=compute,
            bandwidth=bandwidth,
            fill=fill,
            heavy=(~trace.light).astype(np.uint8),
            last_forward=forward - 1 if forward < len(ops) else -1,  # -1: the iteration ends with the forward pass
            persistent=persistent,
            asynchronous=trace.asynchronous,
        )

    @property
    def persistent_bytes(self) -> int:
        return self.persistent

    @property
    def ephemeral_bytes(self) -> int:
        """The ephemeral bytes at the iteration's peak."""
        return int(self.still_peak[0])

    def native(self) -> ctypes.Structure:
        """The struct of native/plan.h; it holds no reference to the arrays."""
        plan = library.structure_of("plan")(ops=self.level.size)
        for column in fields(self):
            value = getattr(self, column.name)
            setattr(plan, column.name, value.ctypes.data if isinstance(value, np.ndarray) else value)
        return plan


def _rounded(seconds: Floats) -> Integers:
    sums = np.round(np.cumsum(seconds) * 1e9).astype(np.int64)
    sums[1:] -= sums[:-1].copy()
    return sums


def _between(trace: Trace, persistent: int) -> Integers:
    """For each op, the ephemeral bytes that live before it is launched; none before the first."""
    n, tensors = len(trace.ops), trace.tensors
    born = np.maximum(tensors.born, 0)
    crosses = tensors.died > born  # held both before and while some op runs
    held = bytes_per_row(born[crosses] + 1, tensors.died[crosses], tensors.bytes[crosses], n)
    return np.maximum(held - persistent, 0)
