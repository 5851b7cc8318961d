"""Measures the peak memory and the time of iterations by the device's own counter and clock."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import torch

_LAST = 64  # iterations whose times are kept


class Gauge:
    """Its owner calls `mark` at every beginning of an iteration."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._module = torch.get_device_module(device)
        self._events: list[tuple[torch.Event, bool]] = []
        self.peak_bytes: int | None = None

    def allocated(self) -> int:
        """Bytes in live blocks now."""
        return int(self._module.memory_allocated())

    def mark(self, measured: bool, seen_bytes: int = 0) -> int:
        """End an iteration, which counts if `measured`, and begin the next. Returns the peak since the last mark.

        `seen_bytes` is a peak that somebody read before they reset the device's counter.
        """
        peak = max(int(self._module.max_memory_allocated()), seen_bytes)
        if measured:
            self.peak_bytes = max(self.peak_bytes or 0, peak)
        self._module.reset_peak_memory_stats()
        event = torch.Event(self._device, enable_timing=True)
        event.record(torch.accelerator.current_stream(self._device))
        self._events = [*self._events[-_LAST:], (event, measured)]
        return peak

    @property
    def seconds(self) -> float | None:
        """The time of the median iteration that counts."""
        torch.accelerator.synchronize()
        times = [first.elapsed_time(second) / 1e3 for (first, _), (second, counts) in pairwise(self._events) if counts]
        return median(times) if times else None
