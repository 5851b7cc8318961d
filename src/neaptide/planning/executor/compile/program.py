"""A program: what the executor does at which moment of an iteration, and which ops it runs again.

The executor can act only when autograd saves a tensor or asks for one: these are the moments. So a gap begins a little
later and ends a little earlier than planned. `Program.plan` has the gaps as they are carried out; `Program.refused`
says which tensors are kept against the plan, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from neaptide.planning.executor.compile.recording import Call, Save
from neaptide.planning.plan import Gap, Plan


class Verb(Enum):
    """What is done to a tensor at a moment; the numbers are the order within one moment."""

    RELEASE = 0  # release it after its copy to the host
    DROP = 1  # release it; it will be recomputed
    ENCODE = 2  # replace it by its code
    SEND = 3  # begin its copy to the host
    FETCH = 4  # begin its copy from the host


@dataclass(frozen=True, slots=True)
class Step:
    """An action on the tensor of a gap."""

    verb: Verb
    gap: Gap


@dataclass(frozen=True, slots=True)
class Rerun:
    """An op to run again. Only its results for members of the chain are kept."""

    op: int
    call: Call
    replaced: frozenset[int]  # tensors that it must not overwrite, such as running statistics: it gets copies
    begins: frozenset[int]  # tensors that it is the first op to write into
    frees: tuple[int, ...]  # members that no later op of the chain needs


@dataclass(frozen=True, slots=True)
class Chain:
    """The ops that run again before one op of the backward pass."""

    reruns: tuple[Rerun, ...]
    members: frozenset[int]  # tensors that the chain recomputes
    stays: frozenset[int]  # members that stay for autograd
    onward: Mapping[int, Gap]  # members that are released at once, and their next gap


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tensor that is kept against the plan."""

    tensor: int
    reason: str


@dataclass(frozen=True, slots=True)
class Program:
    """What the executor does in every iteration."""

    plan: Plan
    refused: tuple[Refusal, ...]
    saves: tuple[Save, ...]
    steps: Mapping[int, tuple[Step, ...]]  # by moment
    chains: Mapping[tuple[int, int], Chain]  # by tensor and `before` of a gap: the chain that recomputes it
    recorded: frozenset[int]  # saved tensors that have gaps or that chains read
    bytes_of: Mapping[int, int]  # of tensors that chains read
    persistent: Mapping[int, str]  # parameters and buffers that chains read: their names
