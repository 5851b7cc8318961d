"""How much memory a program takes between two moments of an iteration, learned while it runs.

A moment is a call of one of autograd's hooks, known by what it does and to which storage. Iterations that save storages
of the same sizes in the same order have the same moments. Nothing is known of an iteration that differs from the last
one, nor of the first two, because libraries and devices prepare themselves in the first; what is unknown does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

LEARNING = 2  # iterations
_BEGIN = ("begin", 0)


class Rises:
    """Reads the device's counter of allocated bytes at every moment, and resets its peak."""

    def __init__(self, device: torch.device) -> None:
        self._memory = torch.get_device_module(device)
        self._most: dict[tuple[str, int], int] = {}  # by moment: the most that was taken before the next one
        self._sizes: list[int] = []  # of the storages saved in this iteration, in order
        self._sizes_before: list[int] = []
        self._begun = 0
        self._strange = True  # nothing is known of this iteration
        self._moment = _BEGIN
        self._peak_bytes = 0
        self._memory.reset_peak_memory_stats()
        self._after_bytes = self._allocated()

    @property
    def learning(self) -> bool:
        """Whether this is one of the first iterations."""
        return self._begun < LEARNING

    def begin(self) -> int:
        """Begin an iteration; return the peak of the last one."""
        with self.moment(*_BEGIN):
            peak, self._peak_bytes = self._peak_bytes, 0
            self._begun += bool(self._sizes)
            self._strange = self._begun < LEARNING
            self._sizes_before, self._sizes = self._sizes, []
        return peak

    @contextmanager
    def moment(self, what: str, number: int) -> Iterator[None]:
        """Around what is done at a moment: learn what was taken before it, then begin to watch anew."""
        peak = int(self._memory.max_memory_allocated())
        self._peak_bytes = max(self._peak_bytes, peak)
        self._most[self._moment] = max(self._most.get(self._moment, 0), peak - self._after_bytes)
        self._moment = (what, number)
        yield
        self._memory.reset_peak_memory_stats()
        self._after_bytes = self._allocated()

    def number(self, size: int) -> int:
        """The number of a storage that is saved for the first time in this iteration."""
        number = len(self._sizes)
        self._sizes.append(size)
        self._strange |= self._sizes_before[number : number + 1] != [size]
        return number

    def fit(self, wanted_bytes: int, limit_bytes: int) -> bool:
        """Whether `wanted_bytes`, and what is taken before the next moment, fit beside what is allocated now."""
        taken = self._most.get(self._moment)
        if self._strange or taken is None:
            return False
        return self._allocated() + wanted_bytes + taken <= limit_bytes

    def _allocated(self) -> int:
        return int(self._memory.memory_allocated())
