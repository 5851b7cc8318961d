"""Checkmate: what recomputing costs at a budget, optimal and by rounding, on even chains.

Published: rounding is within 1.06x of the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from neaptide.planning.checkmate.problem import Graph, chain, hold_everything, stage_peaks
from neaptide.planning.checkmate.solver import optimal, rounded

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
