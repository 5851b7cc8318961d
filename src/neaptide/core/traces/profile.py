"""What policies know of a job's iteration under one plan: its memory curve, its time, and where its phases end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from neaptide.core.rules.in_flight import DEFAULT_IN_FLIGHT
from neaptide.core.traces.curve import MemoryCurve
from neaptide.core.traces.leases import Leases, held_ahead
from neaptide.core.traces.trace import Trace

CURVE_STEPS = 256


@dataclass(frozen=True, eq=False)
class Profile:
    """One plan of a job. `curve` holds the bytes above the persistent ones, over the iteration run alone."""

    name: str
    persistent_bytes: int
    curve: MemoryCurve
    solo_ns: int
    forward_ns: int  # when the forward pass ends, in an iteration run alone
    utilisation: float  # share of the device's time and width that the iteration uses alone, 0..1
    light_share: float  # share of its device time spent in light ops
    batch: int
    kernels: int = 1
    needs: MemoryCurve | None = None  # op by op, as if nothing were launched ahead
    longest_ns: int = 0  # device time of its longest op
    framework_bytes: int = 0  # of the persistent ones, those in no tensor of the program (Salus's third kind of memory)

    @classmethod
    def of(cls, trace: Trace, leases: Leases | None = None) -> Profile:
        """Read a trace. Memory is what the job leases; without `leases`, what it needs, launched ahead as usual."""
        leases = leases or Leases.of(trace)
        rest_bytes = leases.at_rest_bytes
        edges_ns = np.concatenate(([0], trace.ends_ns))
        solo_ns, forward_ns = int(edges_ns[-1]), int(edges_ns[trace.forward_end])
        busy = trace.ops.seconds * trace.ops.fill
        overhead = leases.levels - held_ahead(trace.held_bytes, DEFAULT_IN_FLIGHT)
        return cls(
            name=trace.name,
            persistent_bytes=rest_bytes,
            curve=MemoryCurve(edges_ns, np.maximum(leases.levels - rest_bytes, 0)).coarsen(CURVE_STEPS),
            solo_ns=solo_ns,
            forward_ns=forward_ns,
            utilisation=min(1.0, float(busy.sum()) / trace.seconds) if trace.seconds else 0.0,
            light_share=trace.light_share,
            batch=max(trace.batch, 1),
            kernels=len(trace.ops),
            needs=MemoryCurve(edges_ns, np.maximum(trace.held_bytes + overhead - rest_bytes, 0)),
            longest_ns=round(1e9 * float(trace.ops.seconds.max(initial=0.0))),
            framework_bytes=leases.framework_bytes,
        )

    def grown_to(self, peak_bytes: int, at_rest_bytes: int = 0) -> Profile:
        """The same iteration with at least this peak and these bytes at rest; the curve between is stretched to fit."""
        rest = max(at_rest_bytes, self.persistent_bytes)
        ephemeral = max(peak_bytes, self.peak_bytes, rest) - rest
        grown = replace(self, persistent_bytes=rest, curve=self.curve.grown_to(ephemeral))
        return grown if self.needs is None else replace(grown, needs=self.needs.grown_to(ephemeral))

    def limited_to(self, limit_bytes: int) -> Profile:
        """The same iteration with at most this much on the device; its persistent bytes stay there in any case."""
        most = max(limit_bytes - self.persistent_bytes, 0)
        if self.ephemeral_bytes <= most:
            return self
        needs = None if self.needs is None else self.needs.clipped_to(most)
        return replace(self, curve=self.curve.clipped_to(most), needs=needs)

    def timed(self, solo_ns: int) -> Profile:
        """The same iteration in another time: every part of it takes longer, or less, by one factor."""
        if solo_ns == self.solo_ns or self.solo_ns <= 0:
            return self
        factor = solo_ns / self.solo_ns
        return replace(
            self,
            curve=self.curve.stretched_to(solo_ns),
            solo_ns=solo_ns,
            forward_ns=min(round(self.forward_ns * factor), solo_ns),
            utilisation=min(self.utilisation / factor, 1.0),
            needs=None if self.needs is None else self.needs.stretched_to(solo_ns),
            longest_ns=round(self.longest_ns * factor),
        )

    def curve_ahead(self, in_flight: int | None) -> MemoryCurve:
        """The curve when at most `in_flight` kernels are launched ahead. Its peak does not depend on the cap."""
        if self.needs is None or in_flight is None or in_flight >= DEFAULT_IN_FLIGHT:
            return self.curve
        return MemoryCurve(self.needs.edges_ns, held_ahead(self.needs.bytes, in_flight)).coarsen(CURVE_STEPS)

    def kernels_within(self, most_ns: int) -> int:
        """The most kernels of which any that follow each other take no longer than this together; at least 1.

        A power of two, and at most DEFAULT_IN_FLIGHT.
        """
        if self.needs is None:
            return max(min(most_ns * self.kernels // max(self.solo_ns, 1), DEFAULT_IN_FLIGHT), 1)
        edges_ns, kernels = self.needs.edges_ns, 1
        while 2 * kernels < len(edges_ns) and 2 * kernels <= DEFAULT_IN_FLIGHT:
            if int((edges_ns[2 * kernels :] - edges_ns[: -2 * kernels]).max()) > most_ns:
                break
            kernels *= 2
        return kernels

    @cached_property
    def ephemeral_bytes(self) -> int:
        return self.curve.peak

    @cached_property
    def peak_bytes(self) -> int:
        return self.persistent_bytes + self.ephemeral_bytes

    def remaining_peak(self, position_ns: int) -> int:
        """The most ephemeral bytes that the iteration may hold from this position on; 0 at its end."""
        return self.curve.remaining_peak(position_ns)
