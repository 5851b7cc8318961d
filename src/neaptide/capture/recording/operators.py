"""What can be known of an op and its tensors without running it: from its schema and its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

# They allocate and launch nothing.
_ALLOCATIONS = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided}
# They give a view back although their schema does not say so.
_SILENT_VIEWS = {aten._unsafe_view, aten.lift_fresh, aten.lift}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a schema says of an op."""

    launches: bool
    view: bool
    mutated: tuple[int | str, ...]


def facts_of(func: Any) -> Facts:
    """Whether an op launches a kernel or only looks at memory in another way, and which arguments it writes."""
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
    """Whether an optimizer's op is on its step counters, which PyTorch keeps on the host beside a GPU."""
    return bool(ins) and all(tensor.dim() == 0 for tensor in ins)


def argument_of(args: Any, kwargs: Any, key: int | str) -> Any:
    """The argument at a position or of a name; None where it was left out."""
    if isinstance(key, str):
        return kwargs.get(key)
    return args[key] if key < len(args) else None


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors in some arguments, lists and tuples and dicts of them included; a sparse one gives its parts."""
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
