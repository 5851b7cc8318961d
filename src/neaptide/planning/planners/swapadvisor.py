"""SwapAdvisor (ASPLOS'20): a genetic search over orders of the ops, decoded into swap plans by Belady's rule.

- A genome gives each op a rank: of the ops that can run next, the one of lowest rank runs (`costing.order`). It gives
  each tensor a weight, which decides what is swapped first, and a lead, which is how much earlier than needed its copy
  in begins. And it says how far below the budget to stay, because copies take time.
- Decoding: at the first op above the target, the idle tensor whose next use is furthest away (Belady), in seconds times
  its weight, is swapped; this repeats until no op is above the target. Where the link is too slow, ops wait for copies
  out, and copies in wait for room.
- Score: bytes above the budget, then seconds, both as `apply` finds them.
- The first genomes are Belady's rule alone in the program's order, and in an order that holds little. Parents are
  chosen by tournament; their genes are crossed over one by one and mutated; the best genome survives. The search is
  seeded.

The paper's genome also has a memory allocation: sizes of pools for tensors of like sizes. Here the arena places blocks,
and a planner has no part in that. `swapadvisor-in-order` leaves the order as it is, for programs that run eagerly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Floats
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.analysis.idle_spans import IdleSpans, idle_spans
from neaptide.planning.analysis.memory_order import ranks_that_hold_little
from neaptide.planning.costing.order import dependencies, ordered, reordered
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.costing.timing import fetch_ops
from neaptide.planning.plan import CannotFitError, Gap, Plan, Return, in_order
from neaptide.planning.search.within_budget import schedule_within_budget

_POPULATION, _GENERATIONS, _MUTATED = 10, 8, 0.05
_HEADROOMS = (0.0, 0.05, 0.1, 0.2)
_MOVED = 16.0  # ops by which a mutation moves an op, at most
_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Genome:
    ranks: Floats  # of the ops
    weights: Floats  # of the tensors, 0.5 to 1.5
    leads: Floats  # of the tensors, in units of the copy's time; no lead if not positive
    headroom: float  # share of the budget


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """The best plan that the genetic search finds."""
    return _plan("swapadvisor", trace, budget_bytes, device, reorders=True)


def plan_in_order(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """The best plan in the program's own order."""
    return _plan("swapadvisor-in-order", trace, budget_bytes, device, reorders=False)


def _plan(name: str, trace: Trace, budget_bytes: int, device: DeviceSpec, reorders: bool) -> Plan:
    if trace.peak_bytes <= budget_bytes:
        return Plan(planner=name)
    return _Search(name, trace, device, budget_bytes, reorders).run()


@dataclass(frozen=True, slots=True, eq=False)
class _Ordered:
    """The trace in one order, and what all plans in that order need."""

    order: tuple[int, ...]  # empty for the program's own
    trace: Trace
    spans: IdleSpans
    scheduler: Scheduler


class _Search:
    def __init__(self, name: str, trace: Trace, device: DeviceSpec, budget_bytes: int, reorders: bool) -> None:
        self._name = name
        self._trace, self._device, self._budget = trace, device, budget_bytes
        self._reorders = reorders
        self._before = dependencies(trace) if reorders else []
        self._in_order = lru_cache(maxsize=4)(self._ordered)
        self._random = np.random.default_rng(_SEED)

    def run(self) -> Plan:
        ops, tensors = len(self._trace.ops), len(self._trace.tensors)
        first = _Genome(np.arange(float(ops)), np.ones(tensors), np.zeros(tensors), 0.0)
        people = [replace(first, headroom=share) for share in _HEADROOMS]
        if self._reorders:
            people += [replace(each, ranks=ranks_that_hold_little(self._trace, self._before)) for each in people[:2]]
        people += [self._mutated(first, 1.0) for _ in range(_POPULATION - len(people))]
        scored = sorted(map(self._scored, people), key=lambda each: each[0])
        for _ in range(_GENERATIONS):
            if scored[0][0] <= (0, self._trace.seconds):
                break  # no plan is faster than the unplanned iteration
            children = [self._child([genome for _, genome, _ in scored]) for _ in range(_POPULATION - 1)]
            scored = sorted([scored[0], *map(self._scored, children)], key=lambda each: each[0])
        (over, _), _, best = scored[0]
        if over:
            lowest = self._budget + over
            bound = min(lower_bound(self._trace), lowest)  # another order can go below the bound of this one
            raise CannotFitError(self._name, self._budget, lowest, bound)
        return best

    def _ordered(self, order: tuple[int, ...]) -> _Ordered:
        trace = reordered(self._trace, order) if order else self._trace
        return _Ordered(order, trace, idle_spans(trace), Scheduler(trace, self._device))

    def _scored(self, genome: _Genome) -> tuple[tuple[int, float], _Genome, Plan]:
        order: tuple[int, ...] = ()
        if self._reorders:
            order = ordered(self._trace, self._before, genome.ranks.tolist().__getitem__)
        there = self._in_order(() if order == tuple(range(len(order))) else order)
        schedule = there.scheduler.schedule(Plan(planner=self._name, gaps=self._decoded(genome, there)))
        if schedule.peak_bytes > self._budget:
            schedule = schedule_within_budget(there.scheduler, schedule.gaps, self._budget)
        made = Plan(planner=self._name, gaps=schedule.gaps.gaps(), order=there.order)
        return (max(schedule.peak_bytes - self._budget, 0), schedule.seconds), genome, made

    def _decoded(self, genome: _Genome, there: _Ordered) -> tuple[Gap, ...]:
        spans, held, starts = there.spans, there.trace.held_bytes.copy(), there.trace.start_seconds
        target = self._budget * (1 - genome.headroom)
        distance = starts[spans.before] * genome.weights[spans.tensor]
        free = np.ones(len(spans), dtype=np.bool_)
        made = []
        op = 0
        while (over := np.flatnonzero(held[op:] > target)).size:
            op += int(over[0])
            rows = np.flatnonzero(free & (spans.after < op) & (spans.before > op))
            if rows.size == 0:  # no idle tensor is left to swap here
                op += 1
                continue
            rows = rows[np.argsort(-distance[rows], kind="stable")]
            for row in spans.covering(rows, held[op] - target).tolist():
                free[row] = False
                held[spans.after[row] + 1 : spans.before[row]] -= spans.bytes[row]
                made.append(self._gap(row, float(genome.leads[spans.tensor[row]]), spans, starts))
        return in_order(made)

    def _gap(self, index: int, lead: float, spans: IdleSpans, starts: Floats) -> Gap:
        gap = spans.gap(index, Return.SWAP)
        if lead <= 0:
            return gap
        copied = float(spans.bytes[index]) / self._device.link_bandwidth
        begins = starts[gap.before] - copied * (1 + lead)
        return replace(gap, fetch=int(fetch_ops(starts, begins, gap.after, gap.before)))

    def _mutated(self, genome: _Genome, share: float) -> _Genome:
        chance, size = self._random, genome.weights.size
        weights = np.where(chance.random(size) < share, chance.uniform(0.5, 1.5, size), genome.weights)
        leads = np.where(chance.random(size) < share, chance.uniform(-1, 1, size), genome.leads)
        headroom = chance.uniform(0, max(_HEADROOMS)) if chance.random() < 0.5 else genome.headroom
        ranks = genome.ranks
        if self._reorders and chance.random() < 0.5:  # otherwise the swaps are improved for this order
            moved = chance.random(ranks.size) < share
            ranks = np.where(moved, ranks + chance.uniform(-_MOVED, _MOVED, ranks.size), ranks)
        return _Genome(ranks, weights, leads, headroom)

    def _child(self, people: Sequence[_Genome]) -> _Genome:
        """A child of two parents, each the better of two drawn at random; `people` are ordered best first."""
        mother, father = (people[int(self._random.integers(len(people), size=2).min())] for _ in range(2))
        from_mother = self._random.random(mother.weights.size) < 0.5
        weights = np.where(from_mother, mother.weights, father.weights)
        leads = np.where(from_mother, mother.leads, father.leads)
        return self._mutated(_Genome(mother.ranks, weights, leads, mother.headroom), _MUTATED)
