"""What an iteration counts for: its share of device time, and the requests that it serves."""

from __future__ import annotations

from collections.abc import Collection

REMEMBERED = 32  # iterations of which the size is remembered
_MOST_OF_THEM = 0.9


def work_ns(solo_ns: int, iterations: int, work: float | None) -> int:
    """The device time that iterations would have taken alone.

    `work` says how many measured iterations they amount to, when their sizes differ; None: as many as there were.
    """
    return round((iterations if work is None else work) * solo_ns)


def expected_ns(solo_ns: int, sizes: Collection[float]) -> int:
    """The device time that the next request may take: nine of ten of the last ones took no more.

    `sizes` are those of the last iterations, in measured ones; a job that has shown none is as it was measured.
    """
    if not sizes:
        return solo_ns
    return round(solo_ns * sorted(sizes)[min(int(_MOST_OF_THEM * len(sizes)), len(sizes) - 1)])


def requests_served(waiting: int, batch: int) -> int:
    """How many of the waiting requests the next iteration takes, the oldest first: at most a batch."""
    return min(waiting, max(batch, 1))
