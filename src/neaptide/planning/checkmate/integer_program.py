"""Checkmate's integer program (the paper's equations 1 to 9) as HiGHS takes it.

Minimise the seconds of all runs so that
- a node that runs has its inputs: run[t,k] <= run[t,producer(v)] + hold[t,v] for each input v;
- a value that is held was held or made before: hold[t+1,v] <= hold[t,v] + run[t,producer(v)];
- after each node of each stage, at most the budget is held. A value is released after node k if k runs, the next stage
  does not hold the value and no later node of the stage reads it. The released share (the paper's FREE) is continuous
  and bounded by each of these conditions by itself: it is whole where `run` and `hold` are whole, and the relaxation
  is tighter.
"""

from __future__ import annotations

from collections.abc import Iterable

import highspy
import numpy as np

from neaptide.core.traces.columns import Floats
from neaptide.planning.checkmate.problem import Graph


class IntegerProgram:
    """The program's columns and rows; `run` and `hold` map (stage, node) and (stage, value) to their columns."""

    def __init__(self, graph: Graph, budget_bytes: int, share: float = 1.0) -> None:
        self.graph = graph
        self.run: dict[tuple[int, int], int] = {}
        self.hold: dict[tuple[int, int], int] = {}
        self.cost: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.row_upper: list[float] = []
        self.starts: list[int] = [0]
        self.columns: list[int] = []
        self.factors: list[float] = []
        self.row_lower: list[float] = []
        # Bytes are in units of the mean value's size, so that the solver's tolerances fit.
        self.unit = max(float(graph.value_bytes.mean()), 1.0) if graph.value_bytes.size else 1.0
        self.room = share * (budget_bytes - graph.base_bytes) / self.unit
        self.idle_room = share * (budget_bytes - graph.idle_bytes) / self.unit
        self.whole = 0  # the first columns, which must be whole numbers
        self._build()

    def _column(self, lower: float, upper: float, cost: float = 0.0) -> int:
        self.cost.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        return len(self.cost) - 1

    def _row(self, terms: Iterable[tuple[int, float]], upper: float, lower: float = -highspy.kHighsInf) -> None:
        for column, factor in terms:
            self.columns.append(column)
            self.factors.append(factor)
        self.starts.append(len(self.columns))
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def _build(self) -> None:
        graph, nodes = self.graph, len(self.graph)
        for stage in range(nodes):
            for node in graph.nodes_of(stage):
                first = float(node == stage)
                self.run[stage, node] = self._column(first, 1, float(graph.seconds[node]))
            for value in graph.values_of(stage):
                self.hold[stage, value] = self._column(0, 1)
        self.whole = len(self.cost)
        for stage in range(nodes):
            self._availability(stage)
            self._memory(stage)

    def _availability(self, stage: int) -> None:
        graph = self.graph
        for node in graph.nodes_of(stage):
            for value in graph.inputs[node]:
                sources = [(self.hold[stage, value], -1.0)] if (stage, value) in self.hold else []
                if (again := self.run.get((stage, int(graph.producer[value])))) is not None:
                    sources.append((again, -1.0))
                self._row([(self.run[stage, node], 1.0), *sources], 0)
        for value in graph.values_of(stage):
            if (stage + 1, value) in self.hold:
                terms = [(self.hold[stage + 1, value], 1.0), (self.hold[stage, value], -1.0)]
                if (again := self.run.get((stage, int(graph.producer[value])))) is not None:
                    terms.append((again, -1.0))
                self._row(terms, 0)

    def _memory(self, stage: int) -> None:
        graph, size = self.graph, self.graph.value_bytes / self.unit
        room, idle_room = float(self.room[stage]), float(self.idle_room[stage])
        # held now = held before - freed after the previous node + made by this node
        before = [(self.hold[stage, value], -float(size[value])) for value in graph.values_of(stage) if size[value]]
        self._row([(column, -factor) for column, factor in before], idle_room)
        for node in graph.nodes_of(stage):
            held = self._column(0, room if node == stage else idle_room)
            ran = self.run[stage, node]
            made = float(size[list(graph.outputs[node])].sum())
            self._row([(held, 1.0), (ran, -made), *before], 0, 0)
            if node < stage and (scratch := float(graph.scratch_bytes[node]) / self.unit):
                self._row([(held, 1.0), (ran, scratch)], idle_room)
            before = [(held, -1.0)]
            for value in dict.fromkeys((*graph.inputs[node], *graph.outputs[node])):
                later = [reader for reader in graph.readers[value] if node < reader <= stage]
                if size[value] == 0 or stage in later:
                    continue
                freed = self._column(0, 1)
                before.append((freed, float(size[value])))
                self._row([(freed, 1.0), (ran, -1.0)], 0)
                hazards = [self.hold.get((stage + 1, value)), *(self.run.get((stage, reader)) for reader in later)]
                for hazard in hazards:
                    if hazard is not None:
                        self._row([(freed, 1.0), (hazard, 1.0)], 1)

    def model(self, whole: bool) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.row_upper)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = map(np.array, (self.cost, self.lower, self.upper))
        lp.row_lower_, lp.row_upper_ = np.array(self.row_lower), np.array(self.row_upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self.starts)
        lp.a_matrix_.index_ = np.array(self.columns)
        lp.a_matrix_.value_ = np.array(self.factors)
        if whole:
            kinds = (highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous)
            lp.integrality_ = [kinds[column >= self.whole] for column in range(len(self.cost))]
        return lp

    def hold_shares(self, solution: Floats) -> Floats:
        shares = np.zeros((len(self.graph), self.graph.producer.size))
        for (stage, value), column in self.hold.items():
            shares[stage, value] = solution[column]
        return shares
