"""What the executor must know of an iteration beside its trace: the calls behind the ops, and what autograd saved.

Tensors are the trace's, so views of one storage are one tensor; a `View` says how a particular tensor lies in it.
Whoever records an iteration fills this in; nothing here keeps a tensor alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class View:
    """How a tensor lies in its storage."""

    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, tensor: Tensor) -> View:
        return cls(tensor.dtype, tensor.shape, tensor.stride(), int(tensor.storage_offset()))

    def matches(self, tensor: Tensor) -> bool:
        return (
            tensor.shape == self.size
            and tensor.dtype is self.dtype
            and tensor.stride() == self.stride
            and tensor.storage_offset() == self.offset
        )

    def on(self, holder: Tensor) -> Tensor:
        """The same view of the storage that `holder` lies in."""
        if holder.dtype is self.dtype:
            return torch.as_strided(holder, self.size, self.stride, self.offset)
        empty = torch.empty(0, dtype=self.dtype, device=holder.device)
        return empty.set_(holder.untyped_storage(), self.offset, self.size, self.stride)


@dataclass(frozen=True, slots=True)
class Reference:
    """A tensor in a call's arguments or results: which of the trace's, and the view of it. -1: not on the device."""

    tensor: int
    view: View
    device: torch.device


@dataclass(frozen=True, slots=True)
class Call:
    """What an op of the trace was called with; tensors are replaced by references."""

    function: Any  # torch._ops.OpOverload
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    results: tuple[Reference | None, ...]  # in order; None for what is no tensor on the device
    changes: bool = False  # the recorded iterations called it with different numbers

    def tensors(self) -> Iterator[int]:
        """The tensors among its arguments."""
        return self.tensors_in((self.arguments, self.keywords))

    @classmethod
    def tensors_in(cls, values: Iterable[Any]) -> Iterator[int]:
        for value in values:
            if isinstance(value, Reference):
                yield value.tensor
            elif isinstance(value, (list, tuple)):
                yield from cls.tensors_in(value)
            elif isinstance(value, Mapping):
                yield from cls.tensors_in(value.values())


@dataclass(frozen=True, slots=True)
class Save:
    """One tensor that autograd saved, by the order of saving."""

    tensor: int  # of the trace; -1 if it is none of them
    view: View
    moment: int  # when, among the moments
    uses: tuple[int, ...]  # the moments at which the backward pass asks for it
    gone: int | None = None  # the first moment at which autograd no longer has it; None: it has it to the end


@dataclass(frozen=True, slots=True)
class Recording:
    """One iteration. A moment is one saving or one asking; `op_of_moment` says before which op it is."""

    calls: Mapping[int, Call]  # by op
    saves: tuple[Save, ...]
    op_of_moment: tuple[int, ...]
    only_saved_from: Mapping[int, int]  # of a saved tensor: the moment from which nothing but autograd holds it
    persistent: Mapping[int, str] = field(default_factory=dict)  # parameters and buffers of the model: their names
