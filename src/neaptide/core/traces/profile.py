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
    forward_utilisation: float | None = None  # of the forward pass alone, if that is known
    longest_ns: int = 0  # device time of its longest op

    @classmethod
    def of(cls, trace: Trace, leases: Leases | None = None) -> Profile:
        """Read a trace. Memory is what the job leases; without `leases`, what it needs, launched ahead as usual."""
        leases = leases or Leases.of(trace)
        rest_bytes = leases.at_rest_bytes
        edges_ns = np.concatenate(([0], trace.ends_ns))
        solo_ns, forward = int(edges_ns[-1]), trace.forward_end
        forward_ns = int(edges_ns[forward])
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
            forward_utilisation=min(1.0, 1e9 * float(busy[:forward].sum()) / forward_ns) if forward_ns else None,
            longest_ns=round(1e9 * float(trace.ops.seconds.max(initial=0.0))),
        )

    def grown_to(self, peak_bytes: int) -> Profile:
        """The same iteration with this peak: its ephemeral bytes are larger by one factor."""
        ephemeral = max(peak_bytes - self.persistent_bytes, self.ephemeral_bytes)
        grown = replace(self, curve=self.curve.grown_to(ephemeral))
        return grown if self.needs is None else replace(grown, needs=self.needs.grown_to(ephemeral))

    @property
    def rest_utilisation(self) -> float:
        """The utilisation of the part after the forward pass."""
        rest_ns = self.solo_ns - self.forward_ns
        if self.forward_utilisation is None or rest_ns <= 0:
            return self.utilisation
        return max(self.utilisation * self.solo_ns - self.forward_utilisation * self.forward_ns, 0.0) / rest_ns

    def curve_ahead(self, in_flight: int | None) -> MemoryCurve:
        """The curve when at most `in_flight` kernels are launched ahead. Its peak does not depend on the cap."""
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
        """The most ephemeral bytes that the iteration may hold from this position on; 0 at its end."""
        return self.curve.remaining_peak(position_ns)
