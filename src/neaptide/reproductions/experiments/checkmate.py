"""Checkmate: what recomputing costs at a budget, optimal and by rounding, on even chains and on networks.

Published: rounding is within 1.06x of the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.apply import summary_of
from neaptide.planning.checkmate.problem import Graph, chain, hold_everything, stage_peaks
from neaptide.planning.checkmate.solver import optimal, rounded
from neaptide.planning.plan import CannotFitError
from neaptide.planning.planners import checkmate

PUBLISHED_ROUNDING_RATIO = 1.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One graph at one budget. Costs are times the cost of running each node once; None where there is no answer."""

    name: str
    nodes: int
    budget_share: float  # of the peak without recomputation
    proven: bool  # that `optimal` is
    optimal: float | None
    rounded: float | None

    @property
    def ratio(self) -> float | None:
        """What rounding loses; None unless both ended."""
        if self.optimal is None or self.rounded is None or not self.proven:
            return None
        return self.rounded / self.optimal


def even_chain(layers: int) -> Graph:
    """`layers` forward nodes, a loss, and as many backward nodes, each of two seconds, that run once.

    A backward node reads the gradient, its layer's output and its layer's input.
    """
    nodes = 2 * layers + 1
    inputs: list[tuple[int, ...]] = [() if node == 0 else (node - 1,) for node in range(layers + 1)]
    for layer in reversed(range(layers)):
        inputs.append((len(inputs) - 1, layer, *((layer - 1,) if layer else ())))
    seconds = np.where(np.arange(nodes) > layers, 2.0, 1.0)
    sizes = np.full(nodes, 4, dtype=np.int64)
    sizes[layers] = 1
    return replace(chain(seconds, sizes, tuple(inputs)), repeatable=np.arange(nodes) < layers)


def chain_rows(layers: Sequence[int], shares: Sequence[float], seconds: float = 60.0) -> Iterator[Row]:
    """Even chains at shares of their peak."""
    for count in layers:
        graph = even_chain(count)
        peak = int(stage_peaks(graph, hold_everything(graph)).max())
        once = float(graph.seconds.sum())
        for share in shares:
            best, proven = optimal(graph, int(share * peak), seconds)
            near = rounded(graph, int(share * peak), seconds)
            yield Row(
                name=f"chain of {len(graph)}",
                nodes=len(graph),
                budget_share=share,
                proven=proven,
                optimal=None if best is None else best.seconds(graph) / once,
                rounded=None if near is None else near.seconds(graph) / once,
            )


def network_rows(traces: Mapping[str, Trace], shares: Sequence[float], device: DeviceSpec) -> Iterator[Row]:
    """Networks at shares of their ephemeral bytes, as `apply` finds their plans."""
    for name, trace in traces.items():
        for share in shares:
            budget = trace.persistent_bytes + int(share * trace.ephemeral_bytes)
            costs: list[float | None] = []
            for planner in (checkmate.plan, checkmate.plan_rounded):
                try:
                    plan = planner(trace, budget, device)
                    costs.append(summary_of(trace, plan, device).seconds / trace.seconds)
                except CannotFitError:
                    costs.append(None)
            yield Row(
                name=name,
                nodes=checkmate.NODES,
                budget_share=share,
                proven=False,
                optimal=costs[0],
                rounded=costs[1],
            )
