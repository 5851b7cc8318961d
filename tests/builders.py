"""Traces for tests, written as rows: `make_trace([Op(...), ...], [Tensor(...), ...])`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Kind, Ops, Phase, Tensors, Trace


@dataclass(frozen=True, kw_only=True)
class Op:
    name: str = "aten.mm"
    module: str = "layer"
    phase: int = Phase.FORWARD
    seconds: float = 1.0
    host_seconds: float = 0.0
    flops: float = 0.0
    moved_bytes: int = 0
    fill: float = 1.0
    scratch_bytes: int = 0
    reads: Sequence[int] = ()
    writes: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Tensor:
    bytes: int
    born: int
    died: int
    kind: int = Kind.TEMPORARY
    label: str = "layer"
    layout: str = "float32[1]"
    saved: bool = False


def make_trace(
    ops: Sequence[Op],
    tensors: Sequence[Tensor] = (),
    *,
    name: str = "tiny",
    device: str = "V100-16GB",
    batch: int = 1,
    estimated: bool = True,
    asynchronous: bool = False,
    variation: str = "",
) -> Trace:
    return Trace(
        name,
        device,
        batch,
        estimated,
        asynchronous,
        variation,
        Ops(
            name=Labels.of(row.name for row in ops),
            module=Labels.of(row.module for row in ops),
            phase=np.array([row.phase for row in ops], dtype=np.uint8),
            seconds=np.array([row.seconds for row in ops], dtype=np.float64),
            host_seconds=np.array([row.host_seconds for row in ops], dtype=np.float64),
            flops=np.array([row.flops for row in ops], dtype=np.float64),
            moved_bytes=np.array([row.moved_bytes for row in ops], dtype=np.int64),
            fill=np.array([row.fill for row in ops], dtype=np.float64),
            scratch_bytes=np.array([row.scratch_bytes for row in ops], dtype=np.int64),
            reads=Lists.of([row.reads for row in ops]),
            writes=Lists.of([row.writes for row in ops]),
        ),
        Tensors(
            bytes=np.array([row.bytes for row in tensors], dtype=np.int64),
            kind=np.array([row.kind for row in tensors], dtype=np.uint8),
            label=Labels.of(row.label for row in tensors),
            layout=Labels.of(row.layout for row in tensors),
            born=np.array([row.born for row in tensors], dtype=np.int64),
            died=np.array([row.died for row in tensors], dtype=np.int64),
            saved=np.array([row.saved for row in tensors], dtype=np.bool_),
        ),
    )


def training_trace(*, asynchronous: bool = True) -> Trace:
    """One layer's training step: two forward ops, one backward op, one update."""
    return make_trace(
        [
            Op(name="aten.mm", seconds=2e-3, host_seconds=1e-5, flops=8.0, moved_bytes=140, reads=(0, 1), writes=(2,)),
            Op(name="aten.relu", seconds=1e-3, host_seconds=1e-5, fill=0.25, reads=(2,), writes=(3,)),
            Op(name="aten.mm", phase=Phase.BACKWARD, seconds=4e-3, scratch_bytes=7, reads=(1, 2), writes=(4,)),
            Op(name="aten.add_", phase=Phase.OPTIMIZER, seconds=1e-3, fill=0.5, reads=(4,), writes=(0,)),
        ],
        [
            Tensor(bytes=100, born=-1, died=4, kind=Kind.PARAMETER, label="layer.weight"),
            Tensor(bytes=20, born=-1, died=2, kind=Kind.INPUT, label="input", saved=True),
            Tensor(bytes=30, born=0, died=2, kind=Kind.ACTIVATION, saved=True),
            Tensor(bytes=50, born=1, died=1),
            Tensor(bytes=100, born=2, died=3, kind=Kind.GRADIENT, label="layer.weight"),
        ],
        batch=4,
        asynchronous=asynchronous,
    )


def columns_of(trace: Trace) -> dict[str, object]:
    """Everything a trace says, in plain values that `==` compares exactly, the types of the columns included."""
    said: dict[str, object] = {
        name: getattr(trace, name) for name in ("name", "device", "batch", "estimated", "asynchronous", "variation")
    }
    for table in (trace.ops, trace.tensors):
        for name in table.__dataclass_fields__:
            column = getattr(table, name)
            match column:
                case Labels(words, codes):
                    said[f"{type(table).__name__}.{name}"] = (words, codes.dtype.str, codes.tobytes())
                case Lists(offsets, items):
                    said[f"{type(table).__name__}.{name}"] = (offsets.dtype.str, offsets.tolist(), items.tolist())
                case _:
                    said[f"{type(table).__name__}.{name}"] = (column.dtype.str, column.shape, column.tobytes())
    return said
