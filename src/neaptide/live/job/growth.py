"""Leases expected of a job's iterations, which grow with its largest iteration, and when the daemon is told.

The board is told of every growth at once, because room must be kept for the running iteration. The daemon plans with
it, so it is told of the first growth and of large ones at once, and of others after a while: a job whose iterations
grow by little each time tells it a few times, not each time.
"""

from __future__ import annotations

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.leases import Leases

_SAME = 0.02  # peaks that differ by no more count as equal
_LARGE = 0.25
_WAIT_NS = 15_000_000_000  # before the next small growth is told


class Growth:
    """The leases expected of a job's iterations; they grow when an iteration needs more than any before it."""

    def __init__(self, leases: Leases, op_of_kernel: Integers | None, peak_bytes: int) -> None:
        self.leases = leases
        self.peak_bytes = peak_bytes  # needed, by the largest iteration
        self.grown = False
        self._op_of_kernel = op_of_kernel
        self._told_bytes = leases.peak_bytes
        self._told_ns: int | None = None

    @property
    def levels(self) -> list[int]:
        """The highest lease from each kernel of an iteration on to its end."""
        levels: list[int] = self.leases.to_come(self._op_of_kernel).tolist()
        return levels

    def grows_to(self, peak_bytes: int) -> bool:
        """Note the peak of an iteration; True when the expected leases grow."""
        if peak_bytes <= (1 + _SAME) * self.peak_bytes:
            return False
        # A small job needs less than the chunks that it leases at rest, so bytes are added: a ratio says nothing.
        self.leases = self.leases.grown_to(self.leases.peak_bytes + peak_bytes - self.peak_bytes)
        self.peak_bytes, self.grown = peak_bytes, True
        return True

    def is_to_be_told(self, now_ns: int) -> bool:
        """Whether the daemon is to be told of the growth now; it then counts as told."""
        more_bytes = self.leases.peak_bytes - self._told_bytes
        if more_bytes <= _SAME * self._told_bytes:
            return False
        large = more_bytes > _LARGE * self._told_bytes
        if self._told_ns is not None and not large and now_ns - self._told_ns < _WAIT_NS:
            return False
        self._told_bytes, self._told_ns = self.leases.peak_bytes, now_ns
        return True
