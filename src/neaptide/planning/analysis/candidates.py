"""Which tensors a planner may plan: those that the forward pass leaves for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Integers
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.planning.costing.order import draws_random_numbers
from neaptide.planning.costing.writers import Writers, items_of
from neaptide.planning.plan import Gap, Return

_COPIES = ("copy_", "_to_copy")  # their source may be on the host


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Tensors by the end of their forward use, a column per fact."""

    tensor: Integers
    bytes: Integers
    producer: Integers  # the first op that writes it
    last_forward: Integers  # the last op of the forward pass that uses it
    first_backward: Integers  # the first op of the backward pass that uses it
    recomputable: Flags

    def __len__(self) -> int:
        return self.tensor.size

    def gap(self, row: int, back: Return, *, fetch: int | None = None, codec: str | None = None) -> Gap:
        """The gap of one tensor from its last forward use to its first backward use."""
        tensor, after, before = int(self.tensor[row]), int(self.last_forward[row]), int(self.first_backward[row])
        return Gap(tensor=tensor, after=after, before=before, back=back, fetch=fetch, codec=codec)


def candidates(trace: Trace) -> Candidates:
    """The activations, and the temporaries that autograd saves, that the backward pass uses again."""
    tensors, uses = trace.tensors, trace.uses
    wanted = (tensors.kind == Kind.ACTIVATION) | ((tensors.kind == Kind.TEMPORARY) & tensors.saved)
    wanted &= (tensors.born >= 0) & (tensors.died < len(trace.ops)) & (tensors.bytes > 0) & (uses.producer >= 0)
    wanted &= (uses.last_forward >= 0) & (uses.first_backward > uses.last_forward)
    found = np.flatnonzero(wanted)
    found = found[np.argsort(uses.last_forward[found], kind="stable")]
    return Candidates(
        tensor=found,
        bytes=tensors.bytes[found],
        producer=uses.producer[found],
        last_forward=uses.last_forward[found],
        first_backward=uses.first_backward[found],
        recomputable=recomputable(trace)[found],
    )


def backward_begins(trace: Trace) -> int:
    """The first op of the backward pass; the number of ops if there is none."""
    backward = np.flatnonzero(trace.ops.phase == Phase.BACKWARD)
    return int(backward[0]) if backward.size else len(trace.ops)


def repeatable(trace: Trace) -> Flags:
    """The ops that give the same result when they run again on the same inputs."""
    ops = trace.ops
    words = ops.name.words
    # A dropout of a layer-level network keeps its random state, so it can be repeated.
    random = np.array([draws_random_numbers(word) and not word.startswith("layer::") for word in words], dtype=np.bool_)
    copies = np.array([word.removeprefix("aten::") in _COPIES for word in words], dtype=np.bool_)
    given = np.zeros(len(ops), dtype=np.bool_)
    given[ops.reads.owners()[trace.tensors.born[ops.reads.items] < ops.reads.owners()]] = True
    phases = (ops.phase == Phase.FORWARD) | (ops.phase == Phase.INFERENCE)
    found: Flags = phases & ~random[ops.name.codes] & (given | ~copies[ops.name.codes])
    return found


def recomputable(trace: Trace) -> Flags:
    """The tensors that the ops that wrote them can make again, provided that the inputs of those ops are present.

    All writers of such a tensor are repeatable. They write nothing else but results born with them and buffers (the
    executor gives reruns copies of buffers). Nothing else that they read is overwritten before the backward pass.
    """
    ops, tensors, n = trace.ops, trace.tensors, len(trace.ops)
    writers = Writers(trace)
    tensor, op = writers.until(np.arange(len(tensors)), np.full(len(tensors), n))
    good = np.zeros(len(tensors), dtype=np.bool_)
    good[tensor] = True
    may = repeatable(trace)[op]
    good[tensor[~may]] = False
    tensor, op = tensor[may], op[may]  # leave out updates of all weights, which read and write many tensors
    begins = backward_begins(trace)
    protected = tensors.kind == Kind.BUFFER
    index, written = items_of(ops.writes, op)
    others = (written != tensor[index]) & (tensors.born[written] != op[index]) & ~protected[written]
    good[tensor[index[others]]] = False
    index, read = items_of(ops.reads, op)
    given = (read != tensor[index]) & ~protected[read] & (tensors.born[read] != op[index])
    good[tensor[index[given & (writers.next_at(read, op[index]) < begins)]]] = False
    return good
