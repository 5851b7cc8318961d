"""Which tensors a planner may do something about: what the forward pass leaves for the backward pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Flags, Integers
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.planning.costing.sequence import Writers, rows_of

# Ops whose result depends on more than what they read; their in-place variants included.
_RANDOM = (
    "bernoulli", "dropout", "rand", "normal", "uniform", "multinomial", "exponential", "geometric", "cauchy", "poisson",
    "rrelu",
)  # fmt: skip
_COPIES = ("copy_", "_to_copy")  # may come from the host


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Tensors in the order of their gaps' beginnings, a column per fact."""

    tensor: Integers
    bytes: Integers
    producer: Integers  # the first op that writes it
    last_forward: Integers  # the last op of the forward pass that uses it
    first_backward: Integers  # the first op of the backward pass that uses it
    recomputable: Flags

    def __len__(self) -> int:
        return self.tensor.size


def candidates(trace: Trace) -> Candidates:
    """The activations, and the temporaries saved by autograd, that the backward pass uses again."""
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


def repeatable(trace: Trace) -> Flags:
    """The ops that give the same result when they run again on the same inputs."""
    ops = trace.ops
    words = ops.name.words
    # A layer of a layer-level network has its random state beside it.
    random = np.array(
        [not word.startswith("layer::") and any(part in word for part in _RANDOM) for word in words], dtype=np.bool_
    )
    copies = np.array([word.removeprefix("aten::") in _COPIES for word in words], dtype=np.bool_)
    given = np.zeros(len(ops), dtype=np.bool_)
    given[ops.reads.owners()[trace.tensors.born[ops.reads.items] < ops.reads.owners()]] = True
    phases = (ops.phase == Phase.FORWARD) | (ops.phase == Phase.INFERENCE)
    found: Flags = phases & ~random[ops.name.codes] & (given | ~copies[ops.name.codes])
    return found


def recomputable(trace: Trace) -> Flags:
    """The tensors that can be made again by the ops that write them, as long as what these read is there.

    All its writers are repeatable; they write nothing else but results born with them and buffers, which an executor
    can put back; and nothing else that they read is overwritten afterwards.
    """
    ops, tensors, n = trace.ops, trace.tensors, len(trace.ops)
    writers = Writers(trace)
    tensor, op = writers.until(np.arange(len(tensors)), np.full(len(tensors), n))
    good = np.zeros(len(tensors), dtype=np.bool_)
    good[tensor] = True
    may = repeatable(trace)[op]
    good[tensor[~may]] = False
    tensor, op = tensor[may], op[may]  # an update of all weights writes and reads too much to look at
    backward = np.flatnonzero(ops.phase == Phase.BACKWARD)
    begins = int(backward[0]) if backward.size else n
    protected = tensors.kind == Kind.BUFFER
    index, written = rows_of(ops.writes, op)
    others = (written != tensor[index]) & (tensors.born[written] != op[index]) & ~protected[written]
    good[tensor[index[others]]] = False
    index, read = rows_of(ops.reads, op)
    given = (read != tensor[index]) & ~protected[read] & (tensors.born[read] != op[index])
    good[tensor[index[given & (writers.next_at(read, op[index]) < begins)]]] = False
    return good
