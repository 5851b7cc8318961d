"""A plan as the executor carries it out: what to do at which moment, and which ops to run again.

The executor acts only when autograd saves a tensor or asks for one: those are the moments. So a gap begins and ends at
moments, a little later and earlier than the plan says; `Program.plan` is the plan with the gaps that really happen, and
`refused` says which tensors are kept all the same, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from neaptide.planning.executor.compile.recording import Call, Save
from neaptide.planning.plan import Gap, Plan


class Verb(Enum):
    """What is done to a tensor at a moment; the order is that within one moment."""

    RELEASE = 0  # its copy to the host has been made: let it go
    DROP = 1
    ENCODE = 2
    SEND = 3  # begin its copy to the host
    FETCH = 4  # begin its copy from the host


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do."""

    verb: Verb
    gap: Gap


@dataclass(frozen=True, slots=True)
class Rerun:
    """An op to run again. Results are taken for members of the chain only."""

    op: int
    call: Call
    replaced: frozenset[int]  # what it writes and must not: it gets a copy (running statistics)
    begins: frozenset[int]  # what it writes into for the first time
    frees: tuple[int, ...]  # members that nothing in the chain needs after it


@dataclass(frozen=True, slots=True)
class Chain:
    """The ops that run again before one op of the backward pass."""

    reruns: tuple[Rerun, ...]
    members: frozenset[int]  # tensors made again
    stays: frozenset[int]  # those that stay for autograd to ask for
    onward: Mapping[int, Gap]  # those that go again at once, and into which gap


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tensor that is kept although the plan says otherwise."""

    tensor: int
    reason: str


@dataclass(frozen=True, slots=True)
class Program:
    """All the executor needs."""

    plan: Plan
    refused: tuple[Refusal, ...]
    saves: tuple[Save, ...]
    steps: Mapping[int, tuple[Step, ...]]  # by moment
    chains: Mapping[tuple[int, int], Chain]  # by (tensor, the gap's `before`): the chain that makes it again
    recorded: frozenset[int]  # saved tensors that have gaps or that chains read
    bytes_of: Mapping[int, int]
    persistent: Mapping[int, str]  # parameters and buffers that chains read: their names
