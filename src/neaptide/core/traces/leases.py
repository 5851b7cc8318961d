"""What a job leases from the device in the course of an iteration.

A device leases memory in chunks, so a job leases more than its blocks need. The job and the daemon both read this from
the trace: the job tells its device what is to be kept for the iteration, the daemon plans with it. Where nothing is
known about chunks, as in the simulator, leases are the needed bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.rules.in_flight import DEFAULT_IN_FLIGHT
from neaptide.core.traces.columns import Integers
from neaptide.core.traces.curve import grown_levels
from neaptide.core.traces.trace import Trace

# Overhead above this share of the peak is not reserved.
_MOST_OVERHEAD = 0.25


@dataclass(frozen=True, slots=True)
class LeaseOverhead:
    """Bytes that a process leased beyond those it needed, as it was measured.

    Gaps appear when blocks are freed, so there are few of them up to the peak and more after it.
    """

    peak_bytes: int = 0  # when it leased the most
    most_bytes: int = 0  # at any time, when a block that fitted into no gap took new chunks
    at_rest_bytes: int = 0  # between iterations


@dataclass(frozen=True, eq=False)
class Leases:
    """The leased bytes of one iteration, op by op."""

    at_rest_bytes: int  # between iterations
    levels: Integers  # while each op runs, with as many kernels launched ahead as usual
    framework_bytes: int = 0  # of those at rest, in no tensor: the framework's own, and what chunks have beyond tensors

    @classmethod
    def of(cls, trace: Trace, overhead: LeaseOverhead | None = None) -> Leases:
        """Read a trace; without an overhead leases are the needed bytes."""
        overhead = overhead or LeaseOverhead()
        needed = held_ahead(trace.held_bytes, DEFAULT_IN_FLIGHT)
        most_bytes = min(overhead.most_bytes, round(_MOST_OVERHEAD * trace.peak_bytes))
        peak_bytes = min(overhead.peak_bytes, most_bytes)
        levels = needed + most_bytes
        levels[: int(np.argmax(needed)) + 1] += peak_bytes - most_bytes
        levels = np.minimum(levels, needed.max(initial=0) + peak_bytes)  # more was never leased
        spare_bytes = min(overhead.at_rest_bytes, most_bytes)
        return cls(trace.persistent_bytes + spare_bytes, levels, trace.framework_bytes + spare_bytes)

    @property
    def peak_bytes(self) -> int:
        return max(int(self.levels.max(initial=0)), self.at_rest_bytes)

    def to_come(self, op_of_kernel: Integers | None = None) -> Integers:
        """The highest level from each kernel of the iteration on to its end, or from each op on."""
        highest: Integers = np.maximum.accumulate(self.levels[::-1])[::-1]
        if op_of_kernel is not None and op_of_kernel.size:
            # A kernel may have been assigned to a later op by mistake; the ops before it are still to come.
            highest = highest[np.minimum.accumulate(op_of_kernel[::-1])[::-1]]
        return highest

    def grown_to(self, peak_bytes: int) -> Leases:
        """The same iteration with this peak: everything above the bytes at rest is larger by one factor."""
        above = np.maximum(self.levels - self.at_rest_bytes, 0)
        grown = grown_levels(above, max(peak_bytes - self.at_rest_bytes, int(above.max(initial=0))))
        return replace(self, levels=np.where(self.levels > self.at_rest_bytes, self.at_rest_bytes + grown, self.levels))


def held_ahead(needed: Integers, in_flight: int) -> Integers:
    """The bytes held while each op runs when the `in_flight` kernels after it are launched already.

    A kernel takes its memory when it is launched, and may take a block that an earlier kernel of the stream frees. So
    the bytes held are the largest need of the kernels from the running one to the last one launched.
    """
    held = needed.copy()
    reach = 0  # held[i] covers needed[i .. i + reach]
    while reach < min(in_flight, needed.size - 1):
        step = min(reach + 1, min(in_flight, needed.size - 1) - reach)
        held[: held.size - step] = np.maximum(held[:-step], held[step:])
        reach += step
    return held
