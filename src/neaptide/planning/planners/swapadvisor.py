"""SwapAdvisor (ASPLOS'20): a genetic search whose genomes are decoded into swap plans by Belady's rule.

The paper's genome is an order of the operators and a memory allocation. A plan cannot reorder the ops of an eager
program, and a planner does not control the allocator. So here a genome gives each idle span of a tensor a weight, which
decides the order in which spans are swapped, and a lead, which is how much earlier than needed its copy in begins. It
also sets how far below the budget to stay, because copies take time.
- Decoding: at the first op above the target, the idle tensor whose next use is furthest away (Belady), in seconds times
  its weight, is swapped; this repeats until no op is above the target. Where the link is too slow, ops wait for copies
  out, and copies in wait for room.
- Score: bytes above the budget, then seconds, both as `apply` finds them.
- The first genome is Belady's rule alone (all weights 1). Parents are chosen by tournament; their genes are crossed
  over one by one and mutated; the best genome survives. The search is seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Floats
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.analysis.idle_spans import idle_spans
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.costing.timing import fetch_ops
from neaptide.planning.plan import CannotFitError, Gap, Plan, Return, in_order
from neaptide.planning.search.within_budget import schedule_within_budget

_POPULATION, _GENERATIONS, _MUTATED = 10, 8, 0.05
_HEADROOMS = (0.0, 0.05, 0.1, 0.2)
_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Genome:
    weights: Floats  # of the spans, 0.5 to 1.5
    leads: Floats  # of the spans, in units of the copy's time; no lead if not positive
    headroom: float  # share of the budget


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """The best swap plan that the genetic search finds."""
    if trace.peak_bytes <= budget_bytes:
        return Plan(planner="swapadvisor")
    return _Search(trace, device, budget_bytes).run()


class _Search:
    def __init__(self, trace: Trace, device: DeviceSpec, budget_bytes: int) -> None:
        self._trace, self._device, self._budget = trace, device, budget_bytes
        self._spans = idle_spans(trace)
        self._scheduler = Scheduler(trace, device)
        self._starts = trace.start_seconds
        self._random = np.random.default_rng(_SEED)

    def run(self) -> Plan:
        size = len(self._spans)
        first = _Genome(np.ones(size), np.zeros(size), 0.0)
        people = [replace(first, headroom=share) for share in _HEADROOMS]
        people += [self._mutated(first, 1.0) for _ in range(_POPULATION - len(people))]
        scored = sorted(map(self._scored, people), key=lambda each: each[0])
        for _ in range(_GENERATIONS):
            if scored[0][0] <= (0, self._trace.seconds):
                break  # no plan is faster than the unplanned iteration
            children = [self._child([genome for _, genome, _ in scored]) for _ in range(_POPULATION - 1)]
            scored = sorted([scored[0], *map(self._scored, children)], key=lambda each: each[0])
        (over, _), _, best = scored[0]
        if over:
            raise CannotFitError("swapadvisor", self._budget, self._budget + over, lower_bound(self._trace))
        return best

    def _scored(self, genome: _Genome) -> tuple[tuple[int, float], _Genome, Plan]:
        made = Plan(planner="swapadvisor", gaps=self._decoded(genome))
        schedule = self._scheduler.schedule(made)
        if schedule.peak_bytes > self._budget:
            schedule = schedule_within_budget(self._scheduler, schedule.gaps, self._budget)
            made = Plan(planner="swapadvisor", gaps=schedule.gaps.gaps())
        return (max(schedule.peak_bytes - self._budget, 0), schedule.seconds), genome, made

    def _decoded(self, genome: _Genome) -> tuple[Gap, ...]:
        spans, held = self._spans, self._trace.held_bytes.copy()
        target = self._budget * (1 - genome.headroom)
        distance = self._starts[spans.before] * genome.weights
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
                made.append(self._gap(row, genome))
        return in_order(made)

    def _gap(self, index: int, genome: _Genome) -> Gap:
        gap = self._spans.gap(index, Return.SWAP)
        if genome.leads[index] <= 0:
            return gap
        copied = float(self._spans.bytes[index]) / self._device.link_bandwidth
        begins = self._starts[gap.before] - copied * (1 + genome.leads[index])
        return replace(gap, fetch=int(fetch_ops(self._starts, begins, gap.after, gap.before)))

    def _mutated(self, genome: _Genome, share: float) -> _Genome:
        size = len(self._spans)
        weights = np.where(self._random.random(size) < share, self._random.uniform(0.5, 1.5, size), genome.weights)
        leads = np.where(self._random.random(size) < share, self._random.uniform(-1, 1, size), genome.leads)
        headroom = self._random.uniform(0, max(_HEADROOMS)) if self._random.random() < 0.5 else genome.headroom
        return _Genome(weights, leads, headroom)

    def _child(self, people: Sequence[_Genome]) -> _Genome:
        """A child of two parents, each the better of two drawn at random; `people` are ordered best first."""
        mother, father = (people[int(self._random.integers(len(people), size=2).min())] for _ in range(2))
        from_mother = self._random.random(len(self._spans)) < 0.5
        weights = np.where(from_mother, mother.weights, father.weights)
        leads = np.where(from_mother, mother.leads, father.leads)
        return self._mutated(_Genome(weights, leads, mother.headroom), _MUTATED)
