"""Sizes of iterations, which differ with the length of texts, the batch, and evaluations."""

from __future__ import annotations

from collections import deque
from statistics import median

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.leases import Leases

_SAME = 0.02  # peaks that differ by no more count as equal
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


class Growth:
    """The leases expected of a job's iterations; they grow when an iteration needs more than any before it."""

    def __init__(self, leases: Leases, op_of_kernel: Integers | None, peak_bytes: int) -> None:
        self.leases = leases
        self.peak_bytes = peak_bytes  # needed, by the largest iteration
        self.grown = False
        self._op_of_kernel = op_of_kernel

    @property
    def levels(self) -> list[int]:
        """The highest lease from each kernel of an iteration on to its end."""
        levels: list[int] = self.leases.to_come(self._op_of_kernel).tolist()
        return levels

    def grows_to(self, peak_bytes: int) -> bool:
        """Note the peak of an iteration; True when the expected leases grow."""
        if peak_bytes <= (1 + _SAME) * self.peak_bytes:
            return False
        rest_bytes = self.leases.at_rest_bytes
        factor = (peak_bytes - rest_bytes) / max(self.peak_bytes - rest_bytes, 1)
        self.leases = self.leases.grown_to(rest_bytes + round(factor * (self.leases.peak_bytes - rest_bytes)))
        self.peak_bytes, self.grown = peak_bytes, True
        return True
