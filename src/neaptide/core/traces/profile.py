"""What the project knows of a job's iteration under one plan: its tide, its time, and where its phases end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from neaptide.core.traces.curve import Integers, MemoryCurve
from neaptide.core.traces.trace import Phase, Trace

CURVE_STEPS = 256
# How far launching runs ahead of the device unless a policy says otherwise; it bounds early allocation.
DEFAULT_IN_FLIGHT = 64


@dataclass(frozen=True, eq=False)
class Profile:
    """One plan of a job. `curve` holds the bytes above the persistent ones, over the iteration run alone."""

    name: str
    persistent_bytes: int
    curve: MemoryCurve
    solo_ns: int
    forward_ns: int  # when the forward pass ends, in an iteration run alone
    utilisation: float  # share of the device's time and width that the iteration uses alone, 0..1
    light_share: float  # of the device time, spent in ops that leave room beside them
    batch: int
    kernels: int = 1
    needs: MemoryCurve | None = None  # op by op, as if nothing were launched ahead
    forward_utilisation: float | None = None  # of the forward pass alone, if that is known
    longest_ns: int = 0  # of its ops, the longest

    @classmethod
    def of(cls, trace: Trace, in_flight: int | None = DEFAULT_IN_FLIGHT) -> Profile:
        """Read a trace; memory is taken up to `in_flight` kernels before it is needed."""
        held = held_ahead(trace.held_bytes, len(trace.ops) if in_flight is None else in_flight)
        ends_ns = np.maximum(np.round(trace.end_seconds * 1e9).astype(np.int64), 1)
        ends_ns = np.maximum.accumulate(ends_ns + np.arange(ends_ns.size))  # a step lasts at least 1 ns
        edges_ns = np.concatenate(([0], ends_ns))
        persistent = trace.persistent_bytes
        forward = np.flatnonzero((trace.ops.phase == Phase.FORWARD) | (trace.ops.phase == Phase.INFERENCE))
        backward = np.flatnonzero(trace.ops.phase == Phase.BACKWARD)
        if backward.size:  # the copy of the next batch may come after the step
            forward = forward[forward < backward[0]]
        busy = trace.ops.seconds * trace.ops.fill
        forward_ns = int(ends_ns[forward[-1]]) if forward.size else 0
        return cls(
            name=trace.name,
            persistent_bytes=persistent,
            curve=MemoryCurve(edges_ns, np.maximum(held - persistent, 0)).coarsen(CURVE_STEPS),
            solo_ns=int(ends_ns[-1]),
            forward_ns=forward_ns,
            utilisation=min(1.0, float(busy.sum()) / trace.seconds) if trace.seconds else 0.0,
            light_share=trace.light_share,
            batch=max(trace.batch, 1),
            kernels=len(trace.ops),
            needs=MemoryCurve(edges_ns, np.maximum(trace.held_bytes - persistent, 0)),
            forward_utilisation=min(1.0, 1e9 * float(busy[forward].sum()) / forward_ns) if forward_ns else None,
            longest_ns=round(1e9 * float(trace.ops.seconds.max(initial=0.0))),
        )

    def grown_to(self, peak_bytes: int) -> Profile:
        """The same iteration with this peak: all that is ephemeral in it is larger by one factor."""
        ephemeral = max(peak_bytes - self.persistent_bytes, self.ephemeral_bytes)
        grown = replace(self, curve=self.curve.grown_to(ephemeral))
        return grown if self.needs is None else replace(grown, needs=self.needs.grown_to(ephemeral))

    @property
    def rest_utilisation(self) -> float:
        """As `utilisation`, of what comes after the forward pass."""
        rest_ns = self.solo_ns - self.forward_ns
        if self.forward_utilisation is None or rest_ns <= 0:
            return self.utilisation
        return max(self.utilisation * self.solo_ns - self.forward_utilisation * self.forward_ns, 0.0) / rest_ns

    def curve_ahead(self, in_flight: int | None) -> MemoryCurve:
        """The curve when at most so many kernels are launched ahead; its peak is the same whatever the cap."""
        if self.needs is None or in_flight is None or in_flight >= DEFAULT_IN_FLIGHT:
            return self.curve
        return MemoryCurve(self.needs.edges_ns, held_ahead(self.needs.bytes, in_flight)).coarsen(CURVE_STEPS)

    @cached_property
    def ephemeral_bytes(self) -> int:
        return self.curve.peak

    @property
    def peak_bytes(self) -> int:
        return self.persistent_bytes + self.ephemeral_bytes

    def remaining_peak(self, position_ns: int) -> int:
        """The most ephemeral bytes that the iteration may hold from this position on; at its end none."""
        return self.curve.remaining_peak(position_ns)


def held_ahead(needed: Integers, in_flight: int) -> Integers:
    """The bytes held while each op runs when the `in_flight` kernels after it are launched already.

    A block that was freed is taken again at launch by a later kernel of the stream, so what is held is the largest need
    of the kernels between the running one and the last one launched.
    """
    held = needed.copy()
    reach = 0  # held[i] covers needed[i .. i + reach]
    while reach < min(in_flight, needed.size - 1):
        step = min(reach + 1, min(in_flight, needed.size - 1) - reach)
        held[: held.size - step] = np.maximum(held[:-step], held[step:])
        reach += step
    return held
