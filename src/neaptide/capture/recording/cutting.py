"""Cuts the recorder's continuous log and makes the trace of one iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from neaptide.capture.recording.log import Kernel, Log, Storage
from neaptide.capture.timing.cost import fill_of
from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Kind, Ops, Phase, Tensors, Trace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Times:
    """The measured or estimated part of each kernel of an iteration."""

    seconds: Floats
    host_seconds: Floats
    scratch_bytes: npt.NDArray[np.int64]
    fill: Floats | None = None  # share of the device, if it was measured; else the shapes give it


@dataclass(frozen=True, slots=True)
class Where:
    """The name of a program, its batch, and the device it ran on."""

    name: str
    device: str
    sms: int
    batch: int
    estimated: bool
    asynchronous: bool


def held_between(log: Log) -> npt.NDArray[np.int64]:
    """The bytes held before each kernel, and after the last."""
    n = len(log.kernels)
    change = np.zeros(n + 2, dtype=np.int64)
    for storage in log.storages:
        died = n if storage.died is None else storage.died
        if died >= storage.born:
            change[storage.born + 1] += storage.bytes
            change[min(died, n) + 1] -= storage.bytes
    return np.cumsum(change)[: n + 1]


def low_point(log: Log, earliest: int) -> int:
    """Where to cut between two iterations: where least is held from `earliest` to the next outermost module call."""
    latest = next((start for start in log.root_starts if start >= earliest), earliest)
    held = held_between(log)[earliest : latest + 1]
    return earliest + int(held.argmin())


def variation_of(log: Log, marks: Sequence[int]) -> str:
    """How the iterations between the marks differ, in one sentence; empty if they are equal."""
    first = log.kernels[marks[0] : marks[1]]
    for start, end in pairwise(marks[1:]):
        for position, (a, b) in enumerate(zip(first, log.kernels[start:end], strict=False)):
            if a.name != b.name or a.shapes != b.shapes:
                return f"op {position} is {_describe(a)} in one iteration and {_describe(b)} in another"
        if end - start != len(first):
            return f"one iteration has {len(first)} ops and another {end - start}"
    return ""


def _describe(kernel: Kernel) -> str:
    return f"{kernel.name}({', '.join('x'.join(map(str, shape)) or 'scalar' for shape in kernel.shapes[:4])})"


def trace_of(log: Log, start: int, end: int, times: Times, where: Where, variation: str) -> Trace:
    """The trace of the kernels from `start` to just before `end`."""
    n = end - start
    numbers = held_storages(log, start, end)
    position = {number: row for row, number in enumerate(numbers)}
    kernels = log.kernels[start:end]
    storages = [log.storages[number] for number in numbers]
    kinds = _kinds(log, numbers, end)
    return Trace(
        name=where.name,
        device=where.device,
        batch=where.batch,
        estimated=where.estimated,
        asynchronous=where.asynchronous,
        variation=variation,
        ops=Ops(
            name=Labels.of(kernel.name for kernel in kernels),
            module=Labels.of(kernel.module for kernel in kernels),
            phase=np.array([kernel.phase for kernel in kernels], dtype=np.uint8),
            seconds=times.seconds,
            host_seconds=times.host_seconds,
            flops=np.array([kernel.cost.flops for kernel in kernels]),
            moved_bytes=np.array([kernel.cost.moved_bytes for kernel in kernels], dtype=np.int64),
            fill=fill_of(np.array([kernel.cost.pieces for kernel in kernels]), where.sms)
            if times.fill is None
            else times.fill,
            scratch_bytes=times.scratch_bytes,
            reads=Lists.of([[position[i] for i in kernel.reads] for kernel in kernels]),
            writes=Lists.of([[position[i] for i in kernel.writes] for kernel in kernels]),
        ),
        tensors=Tensors(
            bytes=np.array([storage.bytes for storage in storages], dtype=np.int64),
            kind=np.array(kinds, dtype=np.uint8),
            label=Labels.of(storage.label for storage in storages),
            layout=Labels.of(storage.layout for storage in storages),
            born=np.array([max(storage.born - start, -1) for storage in storages], dtype=np.int64),
            died=np.array(
                [n if storage.died is None else min(storage.died - start, n) for storage in storages], dtype=np.int64
            ),
            saved=np.array([storage.saved for storage in storages], dtype=np.bool_),
        ),
    )


def held_storages(log: Log, start: int, end: int) -> list[int]:
    """The storages that become the tensors of these kernels' trace, in the trace's order."""
    return [i for i, storage in enumerate(log.storages) if _is_held(storage, start, end)]


def _is_held(storage: Storage, start: int, end: int) -> bool:
    died = end if storage.died is None else storage.died
    return storage.born < end and died >= max(storage.born, start)


def _kinds(log: Log, numbers: Sequence[int], end: int) -> list[Kind]:
    """The kind of each storage: from a hook, or else from the kernel that made it and from its lifetime."""
    producer: dict[int, Kernel] = {}
    for kernel in log.kernels[:end]:
        for number in kernel.writes:
            producer.setdefault(number, kernel)
    backward = np.array([i for i, kernel in enumerate(log.kernels) if kernel.phase is Phase.BACKWARD], dtype=np.int64)
    kinds: dict[int, Kind] = {}

    def kind_of(number: int) -> Kind:
        storage = log.storages[number]
        if storage.kind is not None:
            return storage.kind
        maker = producer.get(number)
        if maker is None or (
            # Made outside modules from inputs alone: a batch on its way to the model.
            maker.phase in (Phase.FORWARD, Phase.INFERENCE)
            and not maker.module
            and all(kinds.get(read) is Kind.INPUT for read in maker.reads if read not in maker.writes)
        ):
            return Kind.INPUT
        next_backward = backward[backward.searchsorted(storage.born) :][:1]
        lives_on = storage.died is None or (next_backward.size > 0 and storage.died >= next_backward[0])
        if maker.phase is Phase.FORWARD and next_backward.size and (storage.saved or lives_on):
            return Kind.ACTIVATION
        return Kind.TEMPORARY

    for number in range(numbers[-1] + 1 if numbers else 0):
        kinds[number] = kind_of(number)
    return [kinds[number] for number in numbers]
