"""What one iteration of a job does: its ops and its tensors, in order.

Columnar, so that a trace of thousands of ops is summed, replayed and rewritten in microseconds. Every planner, policy
and report of the project reads traces and nothing else about a job's work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from neaptide.core.rules.heavy import LIGHT_FILL
from neaptide.core.traces.columns import (
    Codes,
    Flags,
    Floats,
    Integers,
    Labels,
    Lists,
    arrays_of,
    bytes_per_row,
    frozen,
    table_problem,
)
from neaptide.core.traces.curve import MemoryCurve


class Phase(IntEnum):
    """The part of an iteration an op belongs to."""

    FORWARD = 0
    BACKWARD = 1
    OPTIMIZER = 2
    INFERENCE = 3


class Kind(IntEnum):
    """What a tensor is for."""

    PARAMETER = 0
    BUFFER = 1
    GRADIENT = 2
    OPTIMIZER = 3
    INPUT = 4
    ACTIVATION = 5  # made by the forward pass and alive when the backward pass begins
    TEMPORARY = 6
    FRAMEWORK = 7  # no tensor of the program: a GPU's context, buffers of libraries (Salus: framework-internal)


@dataclass(frozen=True, slots=True, eq=False)
class Ops:
    """The kernels of an iteration in launch order, a column per fact."""

    name: Labels
    module: Labels  # path of the module that called it; for a backward op, that of its forward op
    phase: Codes
    seconds: Floats  # on the device, alone
    host_seconds: Floats  # between the previous launch and this one
    flops: Floats
    moved_bytes: Integers  # read and written
    fill: Floats  # share of the device it can use, 0..1
    scratch_bytes: Integers  # taken and given back inside the kernel
    reads: Lists  # tensors
    writes: Lists  # tensors

    def __len__(self) -> int:
        return self.phase.size


@dataclass(frozen=True, slots=True, eq=False)
class Tensors:
    """The storages an iteration touches, a column per fact; views of one storage are one tensor.

    A tensor is held while ops `born` to `died` run, both included: -1 is before the first op, and the number of ops is
    after the last. A tensor with `born == -1` is older than the iteration; one with `died == len(ops)` outlives it.
    """

    bytes: Integers
    kind: Codes
    label: Labels  # the parameter's or buffer's name, else the path of the module that made it
    layout: Labels  # such as float32[64, 3, 224, 224]
    born: Integers
    died: Integers
    saved: Flags  # kept by autograd for the backward pass

    def __len__(self) -> int:
        return self.bytes.size


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """When each tensor of a trace is used, as the index of an op; -1 when it is not."""

    producer: Integers  # the first op that writes it
    last_forward: Integers
    first_backward: Integers
    last: Integers


@dataclass(frozen=True, eq=False)
class Trace:
    """One iteration of one job on one device."""

    name: str
    device: str
    batch: int  # samples per iteration; 0 when unknown
    estimated: bool  # the iteration was not run: its seconds come from a cost model
    asynchronous: bool  # the host launches ahead of the device; on a plain CPU it does not
    variation: str  # how the captured iterations differed, one sentence; empty when they were alike
    ops: Ops
    tensors: Tensors

    def __post_init__(self) -> None:
        for table in (self.ops, self.tensors):
            for column in table.__dataclass_fields__:
                value = getattr(table, column)
                for array in arrays_of(value):
                    frozen(array)

    def check(self) -> None:
        """Raise ValueError unless every column and index is consistent with the others."""
        problem = table_problem(self.ops) or table_problem(self.tensors)
        if not problem and len(self.ops) == 0:
            problem = "it has no op"
        if problem:
            raise ValueError(f"not a trace: {problem}")
        n, m = len(self.ops), len(self.tensors)
        op, tensor = self._accesses()
        known = (tensor >= 0) & (tensor < m)
        at, used = op[known], tensor[known]
        sizes = (self.tensors.bytes, self.ops.scratch_bytes, self.ops.moved_bytes)
        times = (self.ops.seconds, self.ops.host_seconds)
        checks = {
            "an op without a phase": (self.ops.phase > max(Phase)).any(),
            "a tensor without a kind": (self.tensors.kind > max(Kind)).any(),
            "a tensor that dies before it is born": (self.tensors.died < self.tensors.born).any(),
            "a lifetime outside the iteration": (
                (self.tensors.born < -1) | (self.tensors.born >= n) | (self.tensors.died > n)
            ).any(),
            "a negative size": self.batch < 0 or any((column < 0).any() for column in sizes),
            "a time that is not a time": any(
                not np.isfinite(column).all() or (column < 0).any() for column in (*times, self.ops.flops)
            ),
            "a fill outside 0..1": not ((self.ops.fill >= 0) & (self.ops.fill <= 1)).all(),  # nor is it NaN
            "a flag that is neither true nor false": (self.tensors.saved.view(np.uint8) > 1).any(),
            "amounts too large to add": (n + m) * max(int(column.max(initial=0)) for column in sizes) >= 2**63
            or 2 * n * max(float(column.max()) for column in times) * 1e9 >= 2**63,
            "an op on an unknown tensor": not known.all(),
            "an op on a tensor that is not alive": (
                (at < self.tensors.born[used]) | (at > self.tensors.died[used])
            ).any(),
            "memory of the framework that does not outlive the iteration": (
                (self.tensors.kind == Kind.FRAMEWORK) & ((self.tensors.born >= 0) | (self.tensors.died < n))
            ).any(),
            "an op on memory of the framework": (self.tensors.kind[used] == Kind.FRAMEWORK).any(),
        }
        for what, wrong in checks.items():
            if wrong:
                raise ValueError(f"not a trace: it has {what}")

    def _accesses(self) -> tuple[Integers, Integers]:
        """Every read and then every write, as (op, tensor)."""
        reads, writes = self.ops.reads, self.ops.writes
        return np.concatenate((reads.owners(), writes.owners())), np.concatenate((reads.items, writes.items))

    @cached_property
    def held_bytes(self) -> Integers:
        """The bytes held while each op runs, its scratch included."""
        tensors = self.tensors
        held = bytes_per_row(tensors.born, tensors.died, tensors.bytes, len(self.ops))
        return frozen(held + self.ops.scratch_bytes)

    @cached_property
    def end_seconds(self) -> Floats:
        """When each op ends, alone on the device. An op begins when it is launched and the op before it has ended."""
        if not self.asynchronous:
            return frozen(np.cumsum(self.ops.host_seconds + self.ops.seconds))
        work = np.cumsum(self.ops.seconds)
        launch = np.cumsum(self.ops.host_seconds)
        return frozen(work + np.maximum.accumulate(launch - (work - self.ops.seconds)))

    @cached_property
    def start_seconds(self) -> Floats:
        """When each op begins, alone on the device."""
        return frozen(self.end_seconds - self.ops.seconds)

    @cached_property
    def ends_ns(self) -> Integers:
        """When each op ends, as `end_seconds`, in whole nanoseconds; each op lasts at least one."""
        ends = np.maximum(np.round(self.end_seconds * 1e9).astype(np.int64), 1)
        return frozen(np.maximum.accumulate(ends + np.arange(ends.size)))

    @cached_property
    def forward_end(self) -> int:
        """How many ops the iteration runs up to the end of its forward pass; 0 when it has none.

        Forward ops after the backward pass has begun do not count: after the step the next batch may be copied.
        An inference iteration is all forward pass.
        """
        phase = self.ops.phase
        forward = np.flatnonzero((phase == Phase.FORWARD) | (phase == Phase.INFERENCE))
        backward = np.flatnonzero(phase == Phase.BACKWARD)
        if backward.size:
            forward = forward[forward < backward[0]]
        return int(forward[-1]) + 1 if forward.size else 0

    @cached_property
    def uses(self) -> Uses:
        """When each tensor is written and read."""
        m, phase = len(self.tensors), self.ops.phase
        op, tensor = self._accesses()
        in_forward = phase[op] == Phase.FORWARD
        in_backward = phase[op] == Phase.BACKWARD
        return Uses(
            producer=_first(self.ops.writes.owners(), self.ops.writes.items, m),
            last_forward=_last(op[in_forward], tensor[in_forward], m),
            first_backward=_first(op[in_backward], tensor[in_backward], m),
            last=_last(op, tensor, m),
        )

    def curve(self) -> MemoryCurve:
        """The bytes held over the course of the iteration, alone on the device."""
        ends_ns = np.round(self.end_seconds * 1e9).astype(np.int64)
        return MemoryCurve.of_steps(np.diff(ends_ns, prepend=0), self.held_bytes).merged()

    @property
    def persistent_bytes(self) -> int:
        """Bytes that outlive the iteration."""
        return int(self.tensors.bytes[self.tensors.died == len(self.ops)].sum())

    @property
    def framework_bytes(self) -> int:
        """Of the persistent bytes, those that are in no tensor of the program."""
        return int(self.tensors.bytes[self.tensors.kind == Kind.FRAMEWORK].sum())

    @property
    def ephemeral_bytes(self) -> int:
        """Bytes above the persistent ones that the iteration needs at its peak."""
        return self.peak_bytes - self.persistent_bytes

    @property
    def peak_bytes(self) -> int:
        return int(self.held_bytes.max())

    @property
    def seconds(self) -> float:
        """How long the iteration takes, alone on the device."""
        return float(self.end_seconds[-1])

    @property
    def light(self) -> Flags:
        """The ops that pass a closed gate (Herald); the others are heavy."""
        return self.ops.fill <= LIGHT_FILL

    @property
    def light_share(self) -> float:
        """Share of the device time that light ops take."""
        busy = float(self.ops.seconds.sum())
        return float(self.ops.seconds[self.light].sum()) / busy if busy else 0.0


def _first(op: Integers, tensor: Integers, size: int) -> Integers:
    found = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(found, tensor, op)
    return frozen(np.where(found == np.iinfo(np.int64).max, -1, found))


def _last(op: Integers, tensor: Integers, size: int) -> Integers:
    found = np.full(size, -1, dtype=np.int64)
    np.maximum.at(found, tensor, op)
    return frozen(found)
