"""A trace as a graph of few nodes: consecutive ops become one node, and tensors with the same users become one value.

A tensor that cannot be recomputed is no value. It counts among the bytes that are held whatever is decided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Integers, bytes_per_row
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.candidates import backward_begins, candidates
from neaptide.planning.analysis.recompute_chains import RecomputeChains
from neaptide.planning.checkmate.coarse_cuts import Uses, cuts, uses_of
from neaptide.planning.checkmate.problem import Graph, Stages
from neaptide.planning.plan import Gap, Return


@dataclass(frozen=True, eq=False, kw_only=True)
class CoarseGraph:
    """The graph, and the ops and tensors of its nodes and values."""

    graph: Graph
    first_op: Integers  # of each node; last, the number of ops
    tensors: tuple[tuple[int, ...], ...]  # of each value: those that a plan may have gaps for
    uses: Uses

    def gaps(self, answer: Stages) -> list[Gap]:
        """The gaps of an answer, without those of tensors that come back only for a recomputation."""
        found = []
        for value, tensors in enumerate(self.tensors):
            made = answer.run[:, self.graph.producer[value]]
            for tensor in tensors:
                found += self._gaps_of(tensor, answer.hold[:, value], made)
        return found

    def _gaps_of(self, tensor: int, hold: Flags, made: Flags) -> list[Gap]:
        ops = np.array(self.uses[tensor])
        stages = np.searchsorted(self.first_op, ops, side="right") - 1
        born, last = int(stages[0]), int(stages[-1])
        gaps, after, stage = [], -1, born
        while stage <= last:
            if stage > born and not made[stage]:  # absent
                stage += 1
                continue
            end = stage  # the tensor is held from here to the beginning of stage `end`
            while end < last and hold[end + 1]:
                end += 1
            used = ops[(stages >= stage) & (stages <= end)]
            if stage == born or used.size or end > stage:
                if stage > born:
                    before = int(self.first_op[stage])
                    gaps.append(Gap(tensor=tensor, after=after, before=before, back=Return.RECOMPUTE))
                wanted_there = int(self.first_op[end]) if end > stage else -1
                after = max(int(used[-1]) if used.size else -1, wanted_there)
            stage = end + 1
        return gaps


def coarse_graph(trace: Trace, chains: RecomputeChains, most: int) -> CoarseGraph:
    """The graph of a trace, with at most `most` nodes."""
    begins = backward_begins(trace)
    planned, uses = _plannable(trace, chains), uses_of(trace)
    return _Builder(trace, chains, planned, uses, begins, cuts(trace, planned, uses, begins, most)).build()


def _plannable(trace: Trace, chains: RecomputeChains) -> set[int]:
    """The candidates that can be recomputed even if all of them are absent."""
    known = candidates(trace)
    ends = zip(known.tensor.tolist(), known.first_backward.tolist(), known.recomputable.tolist(), strict=True)
    return chains.recomputable_together({tensor: before for tensor, before, recomputable in ends if recomputable})


@dataclass(frozen=True, slots=True)
class _Builder:
    trace: Trace
    chains: RecomputeChains
    planned: set[int]
    uses: Uses
    begins: int  # the first op of the backward pass
    first_op: Integers

    def build(self) -> CoarseGraph:
        trace, nodes = self.trace, self.first_op.size - 1
        groups: dict[tuple[int, ...], list[int]] = {}
        for tensor in sorted(self.uses):
            if (key := self._key(tensor)) is not None:
                groups.setdefault(key, []).append(tensor)
        inputs: list[list[int]] = [[] for _ in range(nodes)]
        for value, (_, *readers) in enumerate(groups):
            for node in readers:
                inputs[node].append(value)
        modelled = np.zeros(len(trace.tensors), dtype=np.bool_)
        modelled[[tensor for tensors in groups.values() for tensor in tensors]] = True
        base, idle, scratch = self._bytes_beside(modelled)
        again = self._ops_again()
        graph = Graph(
            seconds=np.array([self.chains.seconds(ops) for ops in again]),
            scratch_bytes=scratch,
            base_bytes=base,
            idle_bytes=idle,
            repeatable=np.array([bool(ops) for ops in again], dtype=np.bool_),
            value_bytes=np.array([trace.tensors.bytes[tensors].sum() for tensors in groups.values()], dtype=np.int64),
            producer=np.array([key[0] for key in groups], dtype=np.int64),
            inputs=tuple(map(tuple, inputs)),
            last_held=np.array([key[-1] for key in groups], dtype=np.int64),
        )
        tensors = tuple(tuple(t for t in each if t in self.planned) for each in groups.values())
        return CoarseGraph(graph=graph, first_op=self.first_op, tensors=tensors, uses=self.uses)

    def _stage(self, op: int) -> int:
        return int(np.searchsorted(self.first_op, op, side="right")) - 1

    def _key(self, tensor: int) -> tuple[int, ...] | None:
        """The producing node and the reading nodes of a tensor; None if the tensor is no value."""
        trace, uses = self.trace, self.uses[tensor]
        passing = trace.tensors.born[tensor] >= 0 and trace.tensors.died[tensor] < self.begins
        if tensor not in self.planned and not passing:
            return None
        writers = {self._stage(op) for op in uses if op < self.begins and tensor in trace.ops.writes[op]}
        stages = sorted({self._stage(op) for op in uses})
        return tuple(stages) if writers == {stages[0]} and len(stages) > 1 else None

    def _ops_again(self) -> list[set[int]]:
        """The ops of each node that must run again to recompute its values or later ones."""
        found: list[set[int]] = [set() for _ in range(self.first_op.size - 1)]
        for tensor in self.planned:
            after = next(op for op in self.uses[tensor] if op >= self.begins)
            for op in self.chains.ops(tensor, after, self.planned) or ():
                found[self._stage(op)].add(op)
        return found

    def _bytes_beside(self, modelled: Flags) -> tuple[Integers, Integers, Integers]:
        """Bytes of no value: during each node's first run, just before it, and the node's own during a rerun."""
        tensors, first, n = self.trace.tensors, self.first_op[:-1], len(self.trace.ops)

        def held(which: Flags) -> Integers:
            return bytes_per_row(tensors.born[which], tensors.died[which], tensors.bytes[which], n)

        scratch = self.trace.ops.scratch_bytes
        base = np.maximum.reduceat(held(~modelled) + scratch, first)
        crossing = [~modelled & (tensors.born < op) & (tensors.died >= op) for op in first.tolist()]
        idle = np.array([tensors.bytes[which].sum() for which in crossing], dtype=np.int64)
        passing = ~modelled & (tensors.born >= 0) & (tensors.died < self.begins)
        return base, idle, np.maximum.reduceat(held(passing) + scratch, first)
