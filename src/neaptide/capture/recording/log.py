"""The recorder's log: launches in order, and the pieces of device memory that they read and write."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from neaptide.capture.timing.cost import Cost
from neaptide.core.traces.trace import Kind, Phase


@dataclass(slots=True)
class Storage:
    """A piece of device memory that the log has seen."""

    bytes: int
    layout: str
    born: int  # the first kernel that it exists for
    died: int | None = None  # the last kernel that it exists for
    kind: Kind | None = None  # if the hooks know it
    label: str = ""
    saved: bool = False
    strides: tuple[int, ...] = ()  # with `layout`, how its first tensor is laid out
    phase: Phase | None = None  # of the kernel that first wrote it
    mirrored: bool = False  # some view is laid out like the first tensor


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch."""

    name: str
    module: str
    phase: Phase
    cost: Cost
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    shapes: tuple[torch.Size, ...]  # of its tensor arguments, to compare iterations
    seconds: float  # under the recorder, without the recorder's own time
    first: int | None  # storage of the first argument, which an in-place variant would write
    first_is_whole: bool  # that argument is not a view
    in_linear: bool  # called by a linear layer


@dataclass(slots=True)
class Log:
    """All launches and storages, in order."""

    kernels: list[Kernel] = field(default_factory=list)
    calls: list[tuple[str, int]] = field(default_factory=list)  # ops except views, and the kernels before each
    launched: list[int] = field(default_factory=list)  # the device's count of kernels after each call; 0 without one
    storages: list[Storage] = field(default_factory=list)
    root_starts: list[int] = field(default_factory=list)  # the number of kernels before each outermost module call
    stands_for: list[int] = field(default_factory=list)  # for each storage, the one that replaces it (`accumulation`)
