"""Echo (ISCA'20): recompute the results of cheap ops where that lowers the footprint of the whole graph.

A tensor is a candidate if all ops that recompute it from present tensors are cheap: no matrix product, no convolution,
no recurrent layer. Its net footprint is its bytes less the bytes that its recomputation brings back beside it, given
the choices so far: dead results on the way, and sources that are recomputed themselves. Candidates with a positive net
footprint are taken by falling net bytes per second, which is computed anew when a candidate's turn comes, as long as
they are absent during an op above the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.idle_spans import idle_spans
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.plan import Gap, Plan, Return
from neaptide.planning.search.within_budget import plan_within_budget

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "addmv", "mv", "dot", "addbmm"})
_PARTS_OF_PRODUCTS = ("conv", "rnn", "lstm", "gru", "attention")


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """Recompute by Echo's rule."""
    return plan_within_budget("echo", Scheduler(trace, device), budget_bytes, _CheapResults(trace).gaps)


def is_cheap(name: str) -> bool:
    """Whether an op spends its time on moving bytes, not on products."""
    plain = name.removeprefix("aten::")
    return plain not in _PRODUCTS and not any(part in plain for part in _PARTS_OF_PRODUCTS)


class _CheapResults:
    """Echo's choice of cheap results to recompute, for one trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._spans = idle_spans(trace)
        self._chains = RecomputeChains(trace)
        cheap = [is_cheap(word) for word in trace.ops.name.words]
        self._cheap = [cheap[code] for code in trace.ops.name.codes.tolist()]

    def gaps(self, target_bytes: int) -> Iterator[Sequence[Gap]]:
        """The gaps of Echo's choice, first with sources that stay once they are back, then with sources that do not."""
        chosen = self._chosen(target_bytes)
        for stay in (True, False):
            try:
                yield self._chains.complete(chosen, stay)
            except CannotRecomputeError:
                continue

    def _chosen(self, target_bytes: int) -> list[Gap]:
        spans, held = self._spans, self._trace.held_bytes.copy()
        chosen: list[int] = []
        queue = [(-float("inf"), index) for index in range(len(spans)) if spans.recomputable[index]]
        heapify(queue)
        while queue:
            _, index = heappop(queue)
            away = slice(int(spans.after[index]) + 1, int(spans.before[index]))
            if not (held[away] > target_bytes).any():
                continue
            worth = self._worth(index, chosen)
            if worth <= 0:
                continue
            if queue and -worth > queue[0][0]:
                heappush(queue, (-worth, index))
                continue
            held[away] -= spans.bytes[index]
            chosen.append(index)
        return [spans.gap(index, Return.RECOMPUTE) for index in chosen]

    def _worth(self, index: int, chosen: list[int]) -> float:
        """Net bytes per second; 0 if an op on the way is not cheap."""
        spans, before = self._spans, int(self._spans.before[index])
        tensor = int(spans.tensor[index])
        ops = self._chains.ops(tensor, before, spans.absent(chosen, before))
        if ops is None or not all(self._cheap[op] for op in ops):
            return 0.0
        beside = {other for op in ops for other in self._trace.ops.writes[op].tolist()} - {tensor}
        net = int(spans.bytes[index]) - int(self._trace.tensors.bytes[list(beside)].sum())
        return net / max(self._chains.seconds(ops), 1e-9)
