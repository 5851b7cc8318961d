"""Sizes of iterations, which differ with the length of texts, the batch, and evaluations."""

from __future__ import annotations

from collections import deque
from statistics import median

_LARGEST = 1e6


class Sizes:
    """How large an iteration is, by the bytes that it allocates: a network does about the same work per byte."""

    def __init__(self) -> None:
        self._measured: deque[int] = deque(maxlen=4)  # the last measured iterations, which were timed

    def measured(self, allocated_bytes: int) -> None:
        """Add an iteration to which others will be compared."""
        self._measured.append(allocated_bytes)

    def of(self, allocated_bytes: int) -> float:
        """The size of an iteration that allocated this much; a measured one has size 1."""
        usual = median(self._measured) if self._measured else 0
        if usual <= 0 or allocated_bytes <= 0:
            return 1.0
        return min(allocated_bytes / usual, _LARGEST)
