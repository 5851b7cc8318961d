"""Sizes of iterations, which differ with the length of texts, the batch, and evaluations."""

from __future__ import annotations

from collections import deque
from statistics import median

_LARGEST = 1e6
_LAST = 4  # iterations before a measurement is complete


class Sizes:
    """How large an iteration is, by the bytes that it allocates: a network does about the same work per byte."""

    def __init__(self) -> None:
        self._last: deque[int] = deque(maxlen=_LAST)
        self._usual: float = 0

    def add(self, allocated_bytes: int) -> None:
        """Note an iteration, to which others may be compared later."""
        self._last.append(allocated_bytes)

    def settle(self) -> None:
        """The last iterations were the measured ones: they have size 1."""
        self._usual = median(self._last) if self._last else 0

    def of(self, allocated_bytes: int) -> float:
        """The size of an iteration that allocated this much."""
        if self._usual <= 0 or allocated_bytes <= 0:
            return 1.0
        return min(allocated_bytes / self._usual, _LARGEST)
