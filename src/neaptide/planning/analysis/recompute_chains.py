"""Which ops recompute a tensor, and what else must come back for them.

All ops that wrote a tensor recompute it. An absent tensor that they read must come back before the same op. If it is in
a gap, the gap ends there and the tensor stays; with `stay=False` the gap is only interrupted, and the tensor is
released again before the op, which is slower and holds less. If the tensor has died, it comes back for the
recomputation alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from neaptide.core.traces.trace import Kind, Trace
from neaptide.planning.analysis.candidates import repeatable
from neaptide.planning.plan import Gap, Return, in_order


class CannotRecomputeError(ValueError):
    """A tensor cannot be recomputed before this op."""


class RecomputeChains:
    """The recomputations of one trace. No method changes anything."""

    def __init__(self, trace: Trace) -> None:
        ops, tensors = trace.ops, trace.tensors
        self._reads = [list(dict.fromkeys(row.tolist())) for row in map(ops.reads.__getitem__, range(len(ops)))]
        self._writes = [list(dict.fromkeys(row.tolist())) for row in map(ops.writes.__getitem__, range(len(ops)))]
        self._writers: list[list[int]] = [[] for _ in range(len(tensors))]
        for op, written in enumerate(self._writes):
            for tensor in written:
                self._writers[tensor].append(op)
        self._born, self._died = tensors.born.tolist(), tensors.died.tolist()
        self._protected = (tensors.kind == Kind.BUFFER).tolist()
        self._repeatable = repeatable(trace).tolist()
        # An op takes the longer of its device and host times, or their sum if the host waits for the device.
        own, host = ops.seconds, ops.host_seconds
        self._seconds = (np.maximum(own, host) if trace.asynchronous else own + host).tolist()

    def seconds(self, ops: Iterable[int]) -> float:
        """What it costs to run these ops again."""
        return float(sum(self._seconds[op] for op in ops))

    def ops(self, tensor: int, before: int, absent: AbstractSet[int] = frozenset()) -> set[int] | None:
        """The ops that recompute a tensor before op `before` while `absent` are absent; None if impossible."""

        def returns(other: int) -> bool:
            alive = self._born[other] < before <= self._died[other]
            if not alive and not self._writers[other]:
                raise CannotRecomputeError(f"tensor {other} has died before op {before}, and no op makes it")
            return other in absent or not alive

        try:
            made = self.made([tensor], before, returns)
        except CannotRecomputeError:
            return None
        return {op for each in made for op in self._writers[each] if op < before}

    def recomputable_together(self, ends: Mapping[int, int]) -> set[int]:
        """The tensors of `ends` that can be recomputed, each before the op given there, even if all are absent."""
        found = set(ends)
        while True:
            good = {tensor for tensor in found if self.ops(tensor, ends[tensor], found) is not None}
            if good == found:
                return found
            found = good

    def made(self, wanted: Iterable[int], before: int, returns: Callable[[int], bool]) -> list[int]:
        """All tensors that are recomputed when the wanted ones are, before an op.

        `returns` says of a tensor that a rerun uses whether it must be recomputed, too. CannotRecomputeError if a rerun
        would give another result, or would read or write a tensor that is present and was overwritten since.
        """
        queue = list(wanted)
        made = dict.fromkeys(queue)
        present: dict[int, int] = {}  # tensors used as they are: the earliest rerun that uses each
        while queue:
            tensor = queue.pop()
            writers = self._writers[tensor]
            if not writers or writers[0] >= before:
                raise CannotRecomputeError(f"no op makes tensor {tensor} before op {before}")
            for op in writers:
                if op >= before:
                    break
                if not self._repeatable[op]:
                    raise CannotRecomputeError(
                        f"tensor {tensor} cannot be recomputed: op {op} gives another result each time"
                    )
                for other in (*self._reads[op], *self._writes[op]):
                    if other in made or self._born[other] == op:
                        continue
                    if returns(other):
                        made[other] = None
                        queue.append(other)
                    else:
                        present[other] = min(op, present.get(other, op))
        for other, op in present.items():
            if not self._protected[other] and any(op <= writer < before for writer in self._writers[other]):
                raise CannotRecomputeError(
                    f"op {op} cannot run again before op {before}: tensor {other} was overwritten"
                )
        return list(made)

    def complete(self, gaps: Sequence[Gap], stay: bool | AbstractSet[int] = True) -> tuple[Gap, ...]:
        """The gaps and all others that their recomputations need, in order; CannotRecomputeError if impossible.

        A tensor that comes back early for a recomputation stays if `stay` is true or contains it.
        """
        absences = _Absences(self, gaps, stay)
        waiting = sorted({gap.before for gap in gaps if gap.back is Return.RECOMPUTE})
        heapify(waiting)
        last = -1
        while waiting:
            before = heappop(waiting)
            if before > last:
                absences.bring_back(before)
                for later in absences.postponed:
                    heappush(waiting, later)
                absences.postponed.clear()
                last = before
        return in_order(gap for each in absences.of.values() for gap in each)


class _Absences:
    """The gaps of each tensor while a plan is completed from the first op to the last."""

    def __init__(self, chains: RecomputeChains, gaps: Sequence[Gap], stay: bool | AbstractSet[int]) -> None:
        self._chains, self._stay = chains, stay
        self.postponed: list[int] = []
        self.of: dict[int, list[Gap]] = {}
        self._ending: dict[int, list[int]] = {}  # by op: the tensors that are recomputed before it
        for gap in sorted(gaps, key=lambda gap: gap.after):
            self.of.setdefault(gap.tensor, []).append(gap)
            if gap.back is Return.RECOMPUTE:
                self._ending.setdefault(gap.before, []).append(gap.tensor)

    def bring_back(self, before: int) -> None:
        """Bring back what the recomputations before an op need."""
        ending = self._ending.get(before, ())
        wanted = [tensor for tensor in ending if any(gap.before == before for gap in self.of[tensor])]
        self._chains.made(wanted, before, lambda other: self._return(other, before))

    def _return(self, tensor: int, before: int) -> bool:
        """Make a tensor present just before an op; return whether it must be recomputed for that."""
        gaps = self.of.get(tensor, [])
        for at, gap in enumerate(gaps):
            if gap.after < before <= gap.before:
                if gap.before > before:
                    self._cut(gaps, at, before)
                return gap.back is Return.RECOMPUTE
        if self._chains._born[tensor] < before <= self._chains._died[tensor]:
            return False
        after = max(self._chains._died[tensor], max((gap.before for gap in gaps), default=-1))
        if not self._chains._writers[tensor] or after >= before:
            raise CannotRecomputeError(f"tensor {tensor} has died before op {before}, and no op makes it")
        self.of.setdefault(tensor, []).append(Gap(tensor=tensor, after=after, before=before, back=Return.RECOMPUTE))
        return True

    def _cut(self, gaps: list[Gap], at: int, before: int) -> None:
        """End a gap before an op, or interrupt it there if the tensor does not stay."""
        gap = gaps[at]
        fetch = None if gap.fetch is None else min(gap.fetch, before)
        gaps[at] = replace(gap, before=before, fetch=fetch)
        stays = self._stay if isinstance(self._stay, bool) else gap.tensor in self._stay
        if gap.back is Return.RECOMPUTE and not stays:
            gaps.insert(at + 1, replace(gap, after=before - 1))
            self._ending.setdefault(gap.before, []).append(gap.tensor)
            self.postponed.append(gap.before)
