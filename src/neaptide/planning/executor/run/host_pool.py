"""Pinned host memory for swapped tensors: a few large pieces in blocks, so that swaps need no system call."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

import torch
from torch import Tensor

_PIECE = 64 << 20
_ALIGNMENT = 256


@dataclass(slots=True)
class Block:
    """A range of a piece. It may be written when all events of `free_after` have passed."""

    piece: int
    start: int
    bytes: int
    free_after: tuple[torch.Event, ...] = ()

    def __lt__(self, other: Block) -> bool:
        return (self.piece, self.start) < (other.piece, other.start)


class HostPool:
    """First fit over pinned pieces; a returned block merges with its free neighbours."""

    def __init__(self, piece_bytes: int = _PIECE) -> None:
        self._piece_bytes = piece_bytes
        self._pieces: list[Tensor] = []
        self._free: list[Block] = []
        self.taken_bytes = 0
        self.most_taken_bytes = 0

    @property
    def pinned_bytes(self) -> int:
        return sum(piece.numel() for piece in self._pieces)

    def take(self, wanted: int) -> Block:
        """A block of at least `wanted` bytes. The caller waits for its `free_after` before writing to it."""
        size = -(-wanted // _ALIGNMENT) * _ALIGNMENT
        position = next((i for i, block in enumerate(self._free) if block.bytes >= size), None)
        if position is None:
            piece = torch.empty(max(size, self._piece_bytes), dtype=torch.uint8, pin_memory=True)
            self._pieces.append(piece)
            self._give_back(Block(len(self._pieces) - 1, 0, piece.numel()))
            position = next(i for i, block in enumerate(self._free) if block.bytes >= size)
        block = self._free[position]
        taken = Block(block.piece, block.start, size, block.free_after)
        if block.bytes == size:
            del self._free[position]
        else:
            block.start += size
            block.bytes -= size
        self.taken_bytes += size
        self.most_taken_bytes = max(self.most_taken_bytes, self.taken_bytes)
        return taken

    def bytes_of(self, block: Block, wanted: int) -> Tensor:
        """The block's memory as bytes."""
        return self._pieces[block.piece][block.start : block.start + wanted]

    def give(self, block: Block, free_after: torch.Event) -> None:
        """Take a block back; its bytes may be written again after `free_after`."""
        self.taken_bytes -= block.bytes
        self._give_back(Block(block.piece, block.start, block.bytes, (free_after,)))

    def _give_back(self, block: Block) -> None:
        insort(self._free, block)
        at = self._free.index(block)
        for left in (at, at - 1):  # merge with the next block, then with the previous one
            if left < 0 or left + 1 >= len(self._free):
                continue
            first, second = self._free[left], self._free[left + 1]
            if first.piece == second.piece and first.start + first.bytes == second.start:
                first.bytes += second.bytes
                both = (*first.free_after, *second.free_after)
                first.free_after = tuple(event for event in both if not event.query())
                del self._free[left + 1]
