"""What the programs on the device tell: values that they write as JSON."""

from __future__ import annotations

from typing import Self

import msgspec


class Load(msgspec.Struct, frozen=True):
    """A network of the zoo, at a size that suits the device."""

    network: str
    scale: str
    batch: int

    def __str__(self) -> str:
        return f"{self.network} {self.scale}, batch {self.batch}"


class Sizes(msgspec.Struct, frozen=True):
    """The loads that suit the device."""

    loads: tuple[Load, ...]


class Training(msgspec.Struct, frozen=True):
    """A training that has ended. Times are on the machine's steady clock."""

    digest: str  # of the losses and parameters of its first iterations
    computes: bool  # whether the device's kernels compute anything
    wrong_blocks: int  # of those that were written by copies and fills at the start and read at the end
    first_launches_ns: tuple[int, ...]  # when the first op of each iteration had been launched
    ends_ns: tuple[int, ...]  # when the device had done each iteration

    def rate(self, since_ns: int, until_ns: int) -> float:
        """Iterations per second between two moments; 0 where fewer than two ended there."""
        ended = [end for end in self.ends_ns if since_ns <= end <= until_ns]
        return (len(ended) - 1) / (ended[-1] - ended[0]) * 1e9 if len(ended) > 1 else 0.0


class Holding(msgspec.Struct, frozen=True):
    """A process that holds memory, and how fast plain copies of it are."""

    slot: int
    held_bytes: int
    out_bytes_per_second: float
    back_bytes_per_second: float


class Check(msgspec.Struct, frozen=True):
    """Whether what it holds is what it wrote."""

    wrong_blocks: int


class Refusal(msgspec.Struct, frozen=True):
    """What torch said of an allocation beyond the budget; empty: it said nothing."""

    said: str
    asked_bytes: int
    went_on: bool

    @classmethod
    def none(cls) -> Self:
        return cls("", 0, False)
