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
    born: int  # the kernel before which it was there
    died: int | None = None  # the kernel after which it was gone
    kind: Kind | None = None  # as far as the hooks can tell
    label: str = ""
    saved: bool = False
    strides: tuple[int, ...] = ()  # with `layout`, how its first tensor lies in it
    phase: Phase | None = None  # of the kernel that first wrote it
    mirrored: bool = False  # some view lies in it as the first tensor does


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch."""

    name: str
    module: str
    phase: Phase
    cost: Cost
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    shapes: tuple[torch.Size, ...]  # of what it was given, to compare iterations
    seconds: float  # while recorded; the recorder's own cost is outside
    first: int | None  # storage of the first argument, which an in-place variant would write
    first_is_whole: bool  # and that argument is no view
    in_linear: bool  # called by a linear layer


@dataclass(slots=True)
class Log:
    """All that was seen, in order."""

    kernels: list[Kernel] = field(default_factory=list)
    calls: list[tuple[str, int]] = field(default_factory=list)  # ops but views, and the kernels before each
    launched: list[int] = field(default_factory=list)  # the device's count after each call; 0 if it has none
    storages: list[Storage] = field(default_factory=list)
    root_starts: list[int] = field(default_factory=list)  # the kernels before each outermost module call
    stands_for: list[int] = field(default_factory=list)  # of each storage, the one it is counted as (`accumulation`)
