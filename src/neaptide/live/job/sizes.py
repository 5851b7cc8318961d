"""Iterations differ, by longer texts, a larger batch, an evaluation: what each needed and allocated says how much."""

from __future__ import annotations

from collections import deque
from statistics import median

_SAME = 0.02  # peaks that differ by no more are taken for the same
_LARGEST = 1e6


class Sizes:
    """How large an iteration is, by the bytes that it allocates: a network does about as much with each of them."""

    def __init__(self) -> None:
        self._measured: deque[int] = deque(maxlen=4)  # the last of those that are measured, which are timed

    def measured(self, allocated_bytes: int) -> None:
        """One of those to which others will be compared."""
        self._measured.append(allocated_bytes)

    def of(self, allocated_bytes: int) -> float:
        """An iteration that allocated so much, against those that were measured."""
        usual = median(self._measured) if self._measured else 0
        if usual <= 0 or allocated_bytes <= 0:
            return 1.0
        return min(allocated_bytes / usual, _LARGEST)


class Growth:
    """What is foreseen of a job's iterations; it grows when one needs more than any before it."""

    def __init__(self, levels: list[int], persistent_bytes: int, peak_bytes: int) -> None:
        self.levels = levels
        self.peak_bytes = peak_bytes
        self.grown = False
        self._persistent_bytes = persistent_bytes

    def grows_to(self, peak_bytes: int) -> bool:
        """Take note of what an iteration needed; whether that changes what is foreseen."""
        if peak_bytes <= (1 + _SAME) * self.peak_bytes:
            return False
        persistent = self._persistent_bytes
        factor = (peak_bytes - persistent) / max(self.peak_bytes - persistent, 1)
        self.levels = [persistent + round(factor * max(level - persistent, 0)) for level in self.levels]
        self.peak_bytes, self.grown = peak_bytes, True
        return True
