"""Checkmate (MLSys'20): the cheapest schedule of recomputations, by integer programming.

The trace becomes a graph of at most `NODES` nodes (`checkmate.coarse_graph`), which counts bytes more coarsely than
`apply`. So `plan_rounded` lowers its target until the plan of the rounded linear program (`checkmate.solver`) is within
the budget. `plan` then solves the integer program for the same target, and takes its answer if it keeps the budget and
is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.checkmate.coarse_graph import coarse_graph
from neaptide.planning.checkmate.problem import Stages, least_runs
from neaptide.planning.checkmate.solver import optimal, rounded
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.plan import Gap, Plan
from neaptide.planning.search.within_budget import plan_within_budget

NODES = 48


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """The optimal schedule of the coarse graph, or the best that the solver finds within its nodes."""
    search = _Search(trace, device)
    near = plan_within_budget("checkmate", search.scheduler, budget_bytes, search.rounded)
    if not near.gaps:
        return near
    found, _ = optimal(search.coarse.graph, search.target_bytes)
    plans = [near] if found is None else [near, Plan(planner="checkmate", gaps=search.gaps(found))]
    schedules = [(search.scheduler.schedule(each), each) for each in plans]
    return min(
        ((schedule.seconds, each) for schedule, each in schedules if schedule.peak_bytes <= budget_bytes),
        key=lambda pair: pair[0],
    )[1]


def plan_rounded(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """The schedule of the rounded linear program."""
    search = _Search(trace, device)
    return plan_within_budget("checkmate-rounded", search.scheduler, budget_bytes, search.rounded)


class _Search:
    """The coarse graph of one trace, and the last target."""

    def __init__(self, trace: Trace, device: DeviceSpec) -> None:
        self.scheduler = Scheduler(trace, device)
        self.target_bytes = 0
        self._chains = RecomputeChains(trace)
        self.coarse = coarse_graph(trace, self._chains, NODES)

    def rounded(self, target_bytes: int) -> Iterator[Sequence[Gap]]:
        self.target_bytes = target_bytes
        graph = self.coarse.graph
        answer = rounded(graph, target_bytes)
        if answer is None:  # hold nothing: that gives the lowest peak
            answer = least_runs(graph, np.zeros((len(graph), graph.producer.size), dtype=np.bool_))
        with suppress(CannotRecomputeError):
            yield self.gaps(answer)

    def gaps(self, answer: Stages) -> tuple[Gap, ...]:
        return self._chains.complete(self.coarse.gaps(answer), stay=False)
