"""What the jobs on a board hold, looked at many times a second from beside: the jobs do not notice.

Of a long run fewer looks are kept: when there are too many, of each two neighbours the one at which more was held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic_ns

from neaptide.devices.board import Board, BoardError, BoardFigures

_INTERVAL_SECONDS = 0.02
_MOST_SAMPLES = 40_000


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Bytes held at one moment."""

    at_ns: int  # on the machine's monotonic clock
    held_bytes: Mapping[str, int]  # per job

    @property
    def total_bytes(self) -> int:
        return sum(self.held_bytes.values())


class Samples:
    """As many samples as there is room for, spread over the whole run."""

    def __init__(self, most: int = _MOST_SAMPLES) -> None:
        self._most = most
        self._stride = 1  # looks for each sample that is kept
        self._looks = 0
        self._kept: list[MemorySample] = []

    def add(self, sample: MemorySample) -> None:
        if self._looks % self._stride and self._kept:
            self._kept[-1] = max(self._kept[-1], sample, key=lambda each: each.total_bytes)
        else:
            self._kept.append(sample)
        self._looks += 1
        if len(self._kept) >= self._most:
            pairs = zip(self._kept[::2], self._kept[1::2], strict=False)
            self._kept = [max(pair, key=lambda each: each.total_bytes) for pair in pairs]
            self._stride *= 2
            self._looks = 0

    def kept(self) -> list[MemorySample]:
        """In the order of time."""
        return list(self._kept)


class MemorySampler:
    """Looks at a board from a thread of its own until it is closed."""

    def __init__(self, board: Board, interval_seconds: float = _INTERVAL_SECONDS) -> None:
        self._look: Callable[[], BoardFigures] = board.snapshot
        self._interval_seconds = interval_seconds
        self._closed = Event()
        self._samples = Samples()
        self.high_water_bytes = 0
        self.looks = 0
        self._thread = Thread(target=self._run, daemon=True, name="neaptide-memory")
        self._thread.start()

    def close(self) -> list[MemorySample]:
        """Stop looking; what was seen."""
        self._closed.set()
        self._thread.join()
        return self._samples.kept()

    def _run(self) -> None:
        before: dict[str, int] = {}
        while not self._closed.wait(self._interval_seconds):
            try:
                seen = self._look()
            except BoardError:
                continue
            self.looks += 1
            held: dict[str, int] = {}
            for slot in seen.slots:
                held[slot.job] = held.get(slot.job, 0) + slot.held_bytes
            self.high_water_bytes = max(self.high_water_bytes, seen.high_water_bytes)
            if held != before:
                self._samples.add(MemorySample(monotonic_ns(), held))
                before = held
