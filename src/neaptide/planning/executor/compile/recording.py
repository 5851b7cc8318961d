"""What the executor must know of an iteration beside its trace: the calls behind the ops, and what autograd saved.

Tensors have the trace's numbers, so views of one storage are one tensor; a `TensorView` is the layout of a torch tensor
in its storage. The recorder of an iteration fills this in. Nothing here keeps a torch tensor alive.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TensorView:
    """The layout of a torch tensor in its storage."""

    dtype: torch.dtype
    size: torch.Size
    stride: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, tensor: Tensor) -> TensorView:
        return cls(tensor.dtype, tensor.shape, tensor.stride(), int(tensor.storage_offset()))

    def matches(self, tensor: Tensor) -> bool:
        return (
            tensor.shape == self.size
            and tensor.dtype is self.dtype
            and tensor.stride() == self.stride
            and tensor.storage_offset() == self.offset
        )

    def on(self, holder: Tensor) -> Tensor:
        """A tensor with this layout in the storage of `holder`."""
        if holder.dtype is self.dtype:
            return torch.as_strided(holder, self.size, self.stride, self.offset)
        empty = torch.empty(0, dtype=self.dtype, device=holder.device)
        return empty.set_(holder.untyped_storage(), self.offset, self.size, self.stride)


@dataclass(frozen=True, slots=True)
class Reference:
    """A tensor in a call's arguments or results: its number in the trace, or -1 if not on the device; its view."""

    tensor: int
    view: TensorView
    device: torch.device


@dataclass(frozen=True, slots=True)
class Call:
    """The call behind an op of the trace; its tensors are replaced by references."""

    function: Any  # torch._ops.OpOverload
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    results: tuple[Reference | None, ...]  # in order; None for a result that is not a tensor on the device
    changes: bool = False  # whether the recorded iterations called it with different numbers

    def tensors(self) -> Iterator[int]:
        """The tensors among the arguments."""
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
    """One tensor that autograd saved. Saves are in the order of saving."""

    tensor: int  # its number in the trace; -1 if it has none
    view: TensorView
    moment: int  # of the saving
    uses: tuple[int, ...]  # the moments at which the backward pass asks for it
    gone: int | None = None  # the first moment at which autograd has released it; None: autograd holds it to the end


@dataclass(frozen=True, slots=True)
class Recording:
    """One iteration. A moment is when autograd saves a tensor or asks for one."""

    calls: Mapping[int, Call]  # by op
    saves: tuple[Save, ...]
    op_of_moment: tuple[int, ...]  # the op that follows each moment
    only_saved_from: Mapping[int, int]  # by saved tensor: the moment from which only autograd holds it
    persistent: Mapping[int, str] = field(default_factory=dict)  # by tensor: the name of a parameter or buffer

    def first_moment(self, op: int) -> int:
        """The first moment at which all ops before `op` have been launched."""
        return bisect_left(self.op_of_moment, op)

    def last_moment(self, op: int) -> int:
        """The last moment at which op `op` has not been launched yet."""
        return bisect_right(self.op_of_moment, op) - 1
