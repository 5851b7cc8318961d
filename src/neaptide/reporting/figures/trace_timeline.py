"""A trace over the course of its iteration: when each phase runs, and which kinds of tensors are held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Floats, Integers, bytes_per_row
from neaptide.core.traces.trace import Kind, Phase, Trace

# From bottom to top: kinds that outlive an iteration lie below kinds that do not.
STACKING = (
    Kind.FRAMEWORK,
    Kind.PARAMETER,
    Kind.BUFFER,
    Kind.OPTIMIZER,
    Kind.GRADIENT,
    Kind.INPUT,
    Kind.ACTIVATION,
    Kind.TEMPORARY,
)


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A part of an iteration in which one phase runs."""

    phase: Phase
    start_seconds: float
    end_seconds: float

    @property
    def seconds(self) -> float:
        return self.end_seconds - self.start_seconds


def level_start_seconds(trace: Trace) -> Floats:
    """From when on the curve shows what each op holds: the end of the op before it."""
    return np.concatenate(([0.0], trace.end_seconds[:-1]))


def phase_spans(trace: Trace, least_share: float = 0.0) -> list[PhaseSpan]:
    """The phases of an iteration in order; a span below `least_share` of the iteration joins the span before it."""
    starts, ends = level_start_seconds(trace), trace.end_seconds
    spans: list[PhaseSpan] = []
    changes = np.flatnonzero(np.diff(trace.ops.phase, prepend=255))
    for first, last in zip(changes, [*changes[1:] - 1, len(trace.ops) - 1], strict=True):
        span = PhaseSpan(Phase(trace.ops.phase[first]), float(starts[first]), float(ends[last]))
        before = spans[-1] if spans else None
        if before and (before.phase is span.phase or span.seconds < least_share * trace.seconds):
            spans[-1] = PhaseSpan(before.phase, before.start_seconds, span.end_seconds)
        else:
            spans.append(span)
    return spans


def held_by_kind(trace: Trace) -> Integers:
    """The bytes held while each op runs, a row per kind in stacking order; an op's scratch is temporary."""
    tensors = trace.tensors
    own = [tensors.kind == kind for kind in STACKING]
    held = np.array(
        [bytes_per_row(tensors.born[of], tensors.died[of], tensors.bytes[of], len(trace.ops)) for of in own]
    )
    held[STACKING.index(Kind.TEMPORARY)] += trace.ops.scratch_bytes
    return held


def highest_ops(trace: Trace, columns: int) -> Integers:
    """For each of `columns` equal parts of the iteration, the op that holds most."""
    edges = np.linspace(0.0, trace.seconds, columns + 1)
    first = np.minimum(trace.end_seconds.searchsorted(edges[:-1], side="right"), len(trace.ops) - 1)
    last = np.maximum(np.minimum(trace.end_seconds.searchsorted(edges[1:], side="left"), len(trace.ops) - 1), first)
    return np.array([a + int(trace.held_bytes[a : b + 1].argmax()) for a, b in zip(first, last, strict=True)])
