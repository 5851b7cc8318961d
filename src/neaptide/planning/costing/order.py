"""Another order of the ops of an iteration, which gives the same results.

Of two ops that use the same tensor, of which one writes it, the first stays first; so do ops that draw random numbers,
and the phases of the iteration. All other ops are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from neaptide.core.traces.columns import Integers, Labels, Lists
from neaptide.core.traces.trace import Ops, Tensors, Trace

# Parts of the names of ops that draw random numbers, in-place variants included.
_RANDOM = (
    "bernoulli", "dropout", "rand", "normal", "uniform", "multinomial", "exponential", "geometric", "cauchy", "poisson",
    "rrelu",
)  # fmt: skip


def draws_random_numbers(name: str) -> bool:
    """Whether an op, by its name, gives another result when it runs at another place or again."""
    return any(part in name for part in _RANDOM)


def dependencies(trace: Trace) -> list[list[int]]:
    """For each op: earlier ops that must run before it. Those that follow from others may be missing."""
    last_write: dict[int, int] = {}
    reads_since: dict[int, list[int]] = {}
    found: list[list[int]] = []
    random = [draws_random_numbers(word) for word in trace.ops.name.words]
    last_random = -1
    for op in range(len(trace.ops)):
        read, written = trace.ops.reads[op].tolist(), trace.ops.writes[op].tolist()
        before = {last_write[tensor] for tensor in (*read, *written) if tensor in last_write}
        before |= {other for tensor in written for other in reads_since.get(tensor, ())}
        if random[trace.ops.name.codes[op]]:
            before |= {last_random} - {-1}
            last_random = op
        for tensor in read:
            reads_since.setdefault(tensor, []).append(op)
        for tensor in written:
            last_write[tensor], reads_since[tensor] = op, []
        found.append(sorted(before - {op}))
    return found


def followers(before: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each op: the ops that wait for it."""
    after: list[list[int]] = [[] for _ in before]
    for op, some in enumerate(before):
        for other in some:
            after[other].append(op)
    return after


def ordered(trace: Trace, before: Sequence[Sequence[int]], rank: Callable[[int], float]) -> tuple[int, ...]:
    """Of the ops that can run next, always the one of lowest rank; phase by phase."""
    phase = trace.ops.phase.tolist()
    after, waits_for = followers(before), [len(some) for some in before]
    # Phases may alternate, as when gradients are accumulated: each run of one phase is a block of its own.
    block = np.concatenate(([0], np.cumsum(np.diff(phase) != 0))).tolist()
    ready = [(block[op], rank(op), op) for op in range(len(before)) if waits_for[op] == 0]
    heapify(ready)
    order = []
    while ready:
        _, _, op = heappop(ready)
        order.append(op)
        for other in after[op]:
            waits_for[other] -= 1
            if waits_for[other] == 0:
                heappush(ready, (block[other], rank(other), other))
    return tuple(order)


def reordered(trace: Trace, order: Sequence[int]) -> Trace:
    """The trace with its ops in another order. ValueError if `order` is no order of its ops that gives the same."""
    count = len(trace.ops)
    if sorted(order) != list(range(count)):
        raise ValueError("not a plan: its order does not name every op once")
    old = np.array(order, dtype=np.int64)
    new = np.empty(count, dtype=np.int64)
    new[old] = np.arange(count)
    for op, before in enumerate(dependencies(trace)):
        for other in before:
            if new[other] > new[op]:
                raise ValueError(
                    f"not a plan: it runs op {op} ({trace.ops.name[op]}) before op {other}, which it needs"
                )
    if (trace.ops.phase[old] != trace.ops.phase).any():
        raise ValueError("not a plan: its order mixes the phases of the iteration")
    return replace(trace, ops=_moved_ops(trace.ops, old), tensors=_moved_lives(trace, new))


def _moved_ops(ops: Ops, old: Integers) -> Ops:
    def moved(column: object) -> object:
        if isinstance(column, Labels):
            return Labels(column.words, column.codes[old])
        if isinstance(column, Lists):
            return Lists.of([column[op].tolist() for op in old.tolist()])
        assert isinstance(column, np.ndarray)
        return column[old]

    return Ops(**{name: moved(getattr(ops, name)) for name in Ops.__dataclass_fields__})  # type: ignore[arg-type]


def _moved_lives(trace: Trace, new: Integers) -> Tensors:
    """The tensors with their lives in the new order: from the op that made them to the last op that used them."""
    tensors, count = trace.tensors, len(trace.ops)
    first = np.full(len(tensors), count)
    last = np.full(len(tensors), -1)
    for lists in (trace.ops.reads, trace.ops.writes):
        np.minimum.at(first, lists.items, new[lists.owners()])
        np.maximum.at(last, lists.items, new[lists.owners()])
    made = (tensors.born >= 0) & (tensors.born < count)
    born = np.where(made, np.minimum(first, new[np.clip(tensors.born, 0, count - 1)]), tensors.born)
    ends = (tensors.died >= 0) & (tensors.died < count)
    died = np.where(ends, np.maximum(last, new[np.clip(tensors.died, 0, count - 1)]), tensors.died)
    return replace(tensors, born=born, died=np.maximum(died, born))
