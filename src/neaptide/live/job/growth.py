"""Leases expected of a job's iterations, which grow with its largest iteration."""

from __future__ import annotations

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.leases import Leases

_SAME = 0.02  # peaks that differ by no more count as equal


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
