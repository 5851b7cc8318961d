"""What an op's schema and arguments say of it without running it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

# These ops allocate and launch no kernel.
_ALLOCATIONS = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided}
# These ops return a view although their schema does not say so.
_SILENT_VIEWS = {aten._unsafe_view, aten.lift_fresh, aten.lift}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts from an op's schema."""

    launches: bool
    view: bool
    mutated: tuple[int | str, ...]


def facts_of(func: Any) -> Facts:
    """Whether an op launches a kernel or only makes a view, and which arguments it writes."""
    schema, packet = func._schema, func.overloadpacket
    view = packet in _SILENT_VIEWS or (
        not schema.is_mutable and bool(schema.returns) and all(result.alias_info for result in schema.returns)
    )
    metadata_only = torch.Tag.inplace_view in func.tags
    mutated = tuple(
        argument.name if argument.kwarg_only else position
        for position, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    launches = not view and not metadata_only and packet not in _ALLOCATIONS
    return Facts(launches, view or metadata_only, mutated)


def layout_of(tensor: Tensor) -> str:
    """A tensor's type and shape: `float32[64, 3, 224, 224]`."""
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def is_host_arithmetic(ins: list[Tensor]) -> bool:
    """Whether an optimizer's op works on its step counters, which PyTorch keeps in host memory for a GPU."""
    return bool(ins) and all(tensor.dim() == 0 for tensor in ins)


def argument_of(args: Any, kwargs: Any, key: int | str) -> Any:
    """The argument at a position or with a name; None if it was omitted."""
    if isinstance(key, str):
        return kwargs.get(key)
    return args[key] if key < len(args) else None


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors in some arguments, also inside lists, tuples and dicts; a sparse tensor gives its parts."""
    for value in values:
        if isinstance(value, Tensor):
            if value.layout == torch.strided:
                yield value
            elif value.layout == torch.sparse_coo:
                yield value._indices()
                yield value._values()
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())
