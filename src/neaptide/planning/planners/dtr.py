"""DTR, dynamic tensor rematerialization (ICLR'21): a greedy cache, simulated op by op over the trace.

When an op would hold more than the target, tensors that it does not use are evicted, always the one with the least
h = cost / (bytes x staleness). The cost is the seconds to recompute the tensor now, evicted tensors on the way
included; the staleness is the seconds since its last use. When an op uses an evicted tensor, the tensor is recomputed
just before the op, and everything recomputed for it stays until it is evicted again. Nothing looks ahead. A tensor can
be evicted after its last forward use, because until then the program itself holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.candidates import candidates
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.plan import Gap, Plan, Return
from neaptide.planning.search.within_budget import plan_within_budget


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """Evict and recompute as the greedy cache does."""
    chains = RecomputeChains(trace)

    def make(target_bytes: int) -> Iterator[Sequence[Gap]]:
        try:
            yield chains.complete(_Cache(trace, chains, target_bytes).run())
        except CannotRecomputeError:
            return

    return plan_within_budget("dtr", Scheduler(trace, device), budget_bytes, make)


class _Cache:
    """The state of the greedy cache: which tensors are present, and when each was last used."""

    def __init__(self, trace: Trace, chains: RecomputeChains, target_bytes: int) -> None:
        known = candidates(trace)
        good = [
            row
            for row in np.flatnonzero(known.recomputable).tolist()
            if chains.ops(int(known.tensor[row]), int(known.first_backward[row])) is not None
        ]
        self._trace, self._chains, self._target = trace, chains, target_bytes
        self._tensor, self._bytes = known.tensor[good], known.bytes[good]
        self._row = {tensor: row for row, tensor in enumerate(self._tensor.tolist())}
        self._from, self._until = known.last_forward[good], trace.uses.last[self._tensor]
        self._there = np.ones(len(good), dtype=np.bool_)
        self._evicted_at = np.zeros(len(good), dtype=np.int64)
        self._last_use = np.zeros(len(good))
        self._cost = np.zeros(len(good))  # at the last look; it only grows while others are evicted
        self._gaps: list[Gap] = []

    def run(self) -> list[Gap]:
        """Simulate all ops; return the gaps of the evicted tensors."""
        trace = self._trace
        starts = trace.start_seconds
        held = trace.held_bytes.tolist()
        for op in range(len(trace.ops)):
            accessed = (*trace.ops.reads[op].tolist(), *trace.ops.writes[op].tolist())
            used = [self._row[tensor] for tensor in accessed if tensor in self._row]
            for row in used:
                if not self._there[row]:
                    self._bring_back(row, op, float(starts[op]))
            away = ~self._there & (self._until >= op)
            over = held[op] - self._target - int(self._bytes[away].sum())
            while over > 0 and (victim := self._victim(op, float(starts[op]), used)) is not None:
                self._there[victim] = False
                self._evicted_at[victim] = op - 1
                over -= int(self._bytes[victim])
            self._last_use[used] = trace.end_seconds[op]
        return self._gaps

    def _victim(self, op: int, now: float, used: list[int]) -> int | None:
        allowed = self._there & (self._from < op) & (self._until >= op)
        allowed[used] = False
        rows = np.flatnonzero(allowed)
        worth = self._bytes[rows] * np.maximum(now - self._last_use[rows], 1e-9)
        tried: set[int] = set()
        while rows.size:
            scores = self._cost[rows] / worth
            at = int(scores.argmin())
            row = int(rows[at])
            if row in tried:
                return row
            ops = self._chains.ops(int(self._tensor[row]), op, self._absent(op))
            self._cost[row] = np.inf if ops is None else self._chains.seconds(ops)
            if ops is None:
                rows, worth = np.delete(rows, at), np.delete(worth, at)
            tried.add(row)
        return None

    def _absent(self, op: int) -> set[int]:
        return set(self._tensor[~self._there & (self._until >= op)].tolist())

    def _bring_back(self, row: int, op: int, now: float) -> None:
        absent = self._absent(op)
        born, died = self._trace.tensors.born, self._trace.tensors.died
        wanted = int(self._tensor[row])
        made = self._chains.made([wanted], op, lambda other: other in absent or not born[other] < op <= died[other])
        for tensor in made:
            if tensor in absent:
                back = self._row[tensor]
                self._there[back] = True
                self._last_use[back] = now
                self._gaps.append(
                    Gap(tensor=tensor, after=int(self._evicted_at[back]), before=op, back=Return.RECOMPUTE)
                )
