"""Checkmate (MLSys'20): the optimal recomputation of a graph, and what rounding a linear program loses against it.

Published: rounding is within 1.06x of the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from neaptide.planning.checkmate.problem import Graph, hold_everything, single_value_graph, stage_peaks
from neaptide.planning.checkmate.solver import NODES, optimal, rounded
from neaptide.reporting.formats import format_times
from neaptide.reporting.terminal.progress import progress
from neaptide.reproductions.claims import Claim, Source
from neaptide.reproductions.laboratory import Laboratory
from neaptide.reproductions.result import Column, Goal, Reproduction, Table, percent

DEVICE = "V100-16GB"
LAYERS = (16, 32, 64)  # a chain of n layers has 2n + 1 nodes
SHARES = (0.7, 0.5, 0.35)
PUBLISHED_ROUNDING_RATIO = 1.06


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedChain:
    """One chain at one budget. Costs are relative to running each node once; None if the solver found no answer."""

    name: str
    budget_share: float  # of the peak without recomputation
    proven: bool  # whether `optimal` is proven to be the optimum
    optimal: float | None
    rounded: float | None

    @property
    def ratio(self) -> float | None:
        """The cost of rounding over the optimum; None unless both are known."""
        if self.optimal is None or self.rounded is None or not self.proven:
            return None
        return self.rounded / self.optimal


def reproduce(laboratory: Laboratory) -> Reproduction:
    """Solve even chains at several budgets."""
    rows: list[SolvedChain] = []
    with progress("solving") as on_progress:
        for row in solve_chains(LAYERS, SHARES):
            rows.append(row)
            on_progress(len(rows), len(LAYERS) * len(SHARES))
    ratios = [row.ratio for row in rows if row.ratio is not None]
    worst = max(ratios, default=float("inf"))
    loss = f"{worst:.3f}x" if ratios else "none"
    proven = sum(row.proven for row in rows)
    return Reproduction(
        paper="Checkmate (MLSys 2020)",
        device=laboratory.device.name,
        setting=(
            "Chains of n forward nodes, a loss and n backward nodes of equal sizes. The budget is a share of the peak "
            f"without recomputation. HiGHS searches at most {NODES} nodes for each solution.",
        ),
        tables=(
            Table(
                "chains",
                "Time over running everything once",
                (
                    Column("graph", "graph", left=True),
                    Column("budget", "budget_share", percent),
                    Column("optimal", "optimal", format_times),
                    Column("proven", "proven", lambda yes: "yes" if yes else "no"),
                    Column("rounded", "rounded", format_times),
                    Column("loss", "ratio", lambda ratio: f"{ratio:.3f}x"),
                ),
                [(row.name, row.budget_share, row.optimal, row.proven, row.rounded, row.ratio) for row in rows],
            ),
        ),
        claims=(
            Claim(
                says="rounding over the optimum, worst where both end",
                published=f"{PUBLISHED_ROUNDING_RATIO:.2f}x",
                source=Source.RECALLED,
                ours=loss,
                agrees=worst <= PUBLISHED_ROUNDING_RATIO if ratios else None,
                other_setting="Even chains instead of the paper's networks; our rounding also fills the room left.",
            ),
        ),
        goals=(Goal(f"every chain optimal within {NODES} nodes", f"{proven} of {len(rows)}", proven == len(rows)),),
        unknown=("Sizes and costs of the paper's graphs as its solver saw them.",),
        differs=(
            "Gradient nodes run once here. Our rounding also fills the memory that the thresholds leave free, in the "
            "order of the linear program's values, and starts from other answers too: thresholds alone lose up to 2.9x "
            "on these chains.",
        ),
    )


def solve_chains(layers: Sequence[int], shares: Sequence[float]) -> Iterator[SolvedChain]:
    """Solve even chains at shares of their peak."""
    for count in layers:
        graph = even_chain(count)
        peak = int(stage_peaks(graph, hold_everything(graph)).max())
        once = float(graph.seconds.sum())
        for share in shares:
            best, proven = optimal(graph, int(share * peak))
            near = rounded(graph, int(share * peak))
            yield SolvedChain(
                name=f"chain of {len(graph)}",
                budget_share=share,
                proven=proven,
                optimal=None if best is None else best.seconds(graph) / once,
                rounded=None if near is None else near.seconds(graph) / once,
            )


def even_chain(layers: int) -> Graph:
    """`layers` forward nodes of one second, a loss, and as many backward nodes of two seconds, which run once.

    A backward node reads the gradient, its layer's output and its layer's input.
    """
    nodes = 2 * layers + 1
    inputs: list[tuple[int, ...]] = [() if node == 0 else (node - 1,) for node in range(layers + 1)]
    for layer in reversed(range(layers)):
        inputs.append((len(inputs) - 1, layer, *((layer - 1,) if layer else ())))
    seconds = np.where(np.arange(nodes) > layers, 2.0, 1.0)
    sizes = np.full(nodes, 4, dtype=np.int64)
    sizes[layers] = 1
    return replace(single_value_graph(seconds, sizes, tuple(inputs)), repeatable=np.arange(nodes) < layers)
