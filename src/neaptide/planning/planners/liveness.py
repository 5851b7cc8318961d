"""Liveness (SuperNeurons, section 3.2): a tensor is released after the last op that needs it.

An eager framework does this by itself, except for tensors that autograd saves and does not use again. So a captured
trace gains little; a network that allocates the tensors of all layers at once gains much.
"""

from __future__ import annotations

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Kind, Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError, Gap, Plan, Return


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """Release every tensor that the framework keeps after its last use."""
    made = Plan(planner="liveness", gaps=releases(trace))
    lowest = apply(trace, made, device).peak_bytes
    if lowest > budget_bytes:
        raise CannotFitError("liveness", budget_bytes, lowest, lower_bound(trace))
    return made


def releases(trace: Trace) -> tuple[Gap, ...]:
    """A gap for good for every activation and temporary that autograd saves beyond its last use."""
    tensors, n = trace.tensors, len(trace.ops)
    last = np.maximum(trace.uses.last, tensors.born)
    early = (last < tensors.died) & (tensors.died < n) & (last >= 0) & (tensors.bytes > 0) & tensors.saved
    early &= (tensors.kind == Kind.ACTIVATION) | (tensors.kind == Kind.TEMPORARY)
    rows = np.flatnonzero(early)
    rows = rows[np.lexsort((rows, last[rows]))]
    return tuple(Gap(tensor=int(tensor), after=int(last[tensor]), before=n, back=Return.RECOMPUTE) for tensor in rows)
