"""The codecs (Gist): the sign bits of a ReLU, non-zero values and their positions, half precision.

Tensors are encoded piece by piece, so that encoding needs little memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

_PIECE = 1 << 18  # elements; a multiple of 8


@dataclass(frozen=True, slots=True)
class Code:
    """An encoded tensor."""

    parts: tuple[Tensor, ...]
    elements: int
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        return sum(part.numel() * part.element_size() for part in self.parts)


def _bits_of(flags: Tensor) -> Tensor:
    """The flags, eight in a byte."""
    count = flags.numel()
    padded = flags if count % 8 == 0 else torch.nn.functional.pad(flags, (0, 8 - count % 8))
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=flags.device)
    return (padded.view(-1, 8) * weights).sum(dim=1, dtype=torch.uint8)


def _flags_of(bits: Tensor, count: int) -> Tensor:
    shifts = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=bits.device)
    return (bits.unsqueeze(1).bitwise_and(shifts) != 0).flatten()[:count]


def _packed(values: Tensor, test: Callable[[Tensor], Tensor]) -> Tensor:
    bits = torch.empty(-(-values.numel() // 8), dtype=torch.uint8, device=values.device)
    for at in range(0, values.numel(), _PIECE):
        piece = values[at : at + _PIECE]
        bits[at // 8 : at // 8 + -(-piece.numel() // 8)] = _bits_of(test(piece))
    return bits


def _unpacked(bits: Tensor, count: int, write: Callable[[slice, Tensor], None]) -> None:
    for at in range(0, count, _PIECE):
        size = min(_PIECE, count - at)
        write(slice(at, at + size), _flags_of(bits[at // 8 : at // 8 + -(-size // 8)], size))


def _encode_bit(values: Tensor) -> Code:
    return Code((_packed(values, lambda piece: piece > 0),), values.numel(), values.dtype)


def _decode_bit(code: Code) -> Tensor:
    values = torch.empty(code.elements, dtype=code.dtype, device=code.parts[0].device)

    def write(where: slice, flags: Tensor) -> None:
        values[where] = flags

    _unpacked(code.parts[0], code.elements, write)
    return values


_WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _encode_sparse(values: Tensor) -> Code:
    whole = values.view(_WHOLE[values.element_size()])  # bit patterns, so that -0.0 is not lost
    bits = _packed(whole, lambda piece: piece != 0)
    present = [piece[piece != 0] for piece in whole.split(_PIECE)]
    return Code((bits, torch.cat(present) if present else whole[:0]), values.numel(), values.dtype)


def _decode_sparse(code: Code) -> Tensor:
    bits, present = code.parts
    whole = torch.zeros(code.elements, dtype=present.dtype, device=present.device)
    taken = 0

    def write(where: slice, flags: Tensor) -> None:
        nonlocal taken
        count = int(flags.sum())
        whole[where].masked_scatter_(flags, present[taken : taken + count])
        taken += count

    _unpacked(bits, code.elements, write)
    return whole.view(code.dtype)


def _encode_half(values: Tensor) -> Code:
    return Code((values.to(torch.bfloat16),), values.numel(), values.dtype)


def _decode_half(code: Code) -> Tensor:
    return code.parts[0].to(code.dtype)


ENCODE: Mapping[str, Callable[[Tensor], Code]] = MappingProxyType(
    {"bit": _encode_bit, "sparse": _encode_sparse, "half": _encode_half}
)
DECODE: Mapping[str, Callable[[Code], Tensor]] = MappingProxyType(
    {"bit": _decode_bit, "sparse": _decode_sparse, "half": _decode_half}
)
