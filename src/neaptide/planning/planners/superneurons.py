"""SuperNeurons (PPoPP'18): liveness, a unified tensor pool over device and host, and cost-aware recomputation.

The results of convolutions go to the host, the least recently used first and no more of them than the budget needs, and
come back one convolution ahead. Other results that are not checkpoints are recomputed segment by segment: once and then
kept (speed-centric), or for each backward op anew where keeping a segment would exceed the largest layer
(memory-centric). The trace of an eager framework has the paper's liveness already.

The paper's pool is a cache at run time: that is executor/run/tensor_cache.py. Its choice of a convolution algorithm
whose workspace fits is absent: PyTorch's libraries choose the algorithm themselves, and no trace says how fast and how
large the other algorithms would have been.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Integers
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.planning.analysis.bounds import lower_bound, needed_bytes
from neaptide.planning.analysis.candidates import Candidates, candidates
from neaptide.planning.analysis.layer_kinds import CHECKPOINTS, LayerKind, kind_of, kinds_of
from neaptide.planning.analysis.recompute_chains import RecomputeChains
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.plan import CannotFitError, Gap, Plan, Return
from neaptide.planning.search.waits import schedule_with_waits


class Recomputation(Enum):
    """The paper's ways to recompute."""

    NONE = "none"
    SPEED = "speed-centric"
    MEMORY = "memory-centric"
    COST_AWARE = "cost-aware"


OFFLOADED = frozenset({LayerKind.CONVOLUTION})


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec, offloaded: frozenset[LayerKind] = OFFLOADED) -> Plan:
    """The faster of offloading alone and offloading with recomputation, each with as little offloading as possible.

    The paper offloads the results of convolutions only; `offloaded` can name more kinds of checkpoints.
    """
    scheduler = Scheduler(trace, device)
    pool = Pool.of(trace, offloaded)
    best: Schedule | None = None
    lowest = trace.peak_bytes
    for way in (Recomputation.NONE, Recomputation.COST_AWARE, Recomputation.MEMORY):
        if best is not None and way is Recomputation.MEMORY:
            break  # memory-centric recomputation is only for budgets that the others cannot meet
        found = _fewest(pool, scheduler, way, budget_bytes)
        lowest = min(lowest, found.peak_bytes)
        if found.peak_bytes <= budget_bytes and (best is None or found.seconds < best.seconds):
            best = found
    if best is None:
        raise CannotFitError("superneurons", budget_bytes, lowest, lower_bound(trace))
    return Plan(planner="superneurons", gaps=best.gaps.gaps())


def _fewest(pool: Pool, scheduler: Scheduler, way: Recomputation, budget_bytes: int) -> Schedule:
    """The schedule with the fewest offloaded tensors that meets the budget; with all of them if none does."""

    @cache
    def offloading(count: int) -> Schedule:
        return schedule_with_waits(scheduler, pool.gaps(count, way), budget_bytes)

    most = len(pool.offloadable)
    if offloading(most).peak_bytes > budget_bytes:
        return offloading(most)
    return offloading(first_true(most, lambda count: offloading(count).peak_bytes <= budget_bytes))


def first_true(most: int, holds: Callable[[int], bool]) -> int:
    """The smallest number for which `holds` is true; it must be true from there on, and for `most`."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The tensors of one trace that the paper's techniques offload or recompute."""

    trace: Trace
    found: Candidates
    chains: RecomputeChains
    offloadable: Integers  # rows of `found`, the least recently used first
    recomputed: Integers  # rows of `found`
    memory_centric: frozenset[int]  # the tensors of segments that are too large to keep
    backward_convolutions: Integers

    @classmethod
    def of(cls, trace: Trace, offloaded: frozenset[LayerKind] = OFFLOADED) -> Pool:
        found, chains = candidates(trace), RecomputeChains(trace)
        kinds = kinds_of(trace, found.producer)
        offloadable = [row for row, kind in enumerate(kinds) if kind in offloaded]
        others = [row for row, kind in enumerate(kinds) if kind not in CHECKPOINTS and found.recomputable[row]]
        ends = {int(found.tensor[row]): int(found.first_backward[row]) for row in others}
        together = chains.recomputable_together(ends)
        recomputed = np.array([row for row in others if int(found.tensor[row]) in together], dtype=np.int64)
        words = np.array([kind_of(word) is LayerKind.CONVOLUTION for word in trace.ops.name.words])
        backward = (trace.ops.phase == Phase.BACKWARD) & words[trace.ops.name.codes]
        return cls(
            trace=trace,
            found=found,
            chains=chains,
            offloadable=np.array(offloadable, dtype=np.int64),
            recomputed=recomputed,
            memory_centric=_too_large_to_keep(trace, found.tensor[recomputed]),
            backward_convolutions=np.flatnonzero(backward),
        )

    def gaps(self, offloaded: int, way: Recomputation) -> tuple[Gap, ...]:
        """The gaps that offload the first `offloaded` results and recompute others in some way."""
        swaps = [self.found.gap(row, Return.SWAP) for row in self.offloadable[:offloaded].tolist()]
        if way is Recomputation.NONE:
            return tuple(self._one_convolution_ahead(gap) for gap in swaps)
        again = [self.found.gap(row, Return.RECOMPUTE) for row in self.recomputed.tolist()]
        kept = {gap.tensor for gap in again}
        if way is not Recomputation.SPEED:
            kept -= self.memory_centric if way is Recomputation.COST_AWARE else kept
        return tuple(self._one_convolution_ahead(gap) for gap in self.chains.complete([*swaps, *again], stay=kept))

    def _one_convolution_ahead(self, gap: Gap) -> Gap:
        if gap.back is not Return.SWAP:
            return gap
        at = int(np.searchsorted(self.backward_convolutions, gap.before)) - 1
        fetch = int(self.backward_convolutions[at]) if at >= 0 else gap.before
        return replace(gap, fetch=min(max(fetch, gap.after + 1), gap.before))


def _too_large_to_keep(trace: Trace, recomputed: Integers) -> frozenset[int]:
    """The tensors of segments that, with the checkpoints they start from, are larger than the largest layer."""
    ephemeral = np.isin(trace.tensors.kind, (Kind.ACTIVATION, Kind.TEMPORARY)) & (trace.tensors.died < len(trace.ops))
    sizes = np.where(ephemeral, trace.tensors.bytes, 0)
    largest = int(needed_bytes(trace, sizes).max())
    segment: dict[int, set[int]] = {}
    members = set(recomputed.tolist())
    for tensor in sorted(members, key=lambda each: int(trace.uses.producer[each])):
        joined = {tensor}
        for read in trace.ops.reads[int(trace.uses.producer[tensor])].tolist():
            joined |= segment[read] if read in segment and read in members else {read}
        for each in joined & members:
            segment[each] = joined
    large = {id(group) for group in segment.values() if int(sizes[list(group)].sum()) > largest}
    return frozenset(tensor for tensor, group in segment.items() if id(group) in large)
