"""What an iteration counts for: its share of device time, and the requests that it serves."""

from __future__ import annotations


def work_ns(solo_ns: int, iterations: int, work: float | None) -> int:
    """The device time that iterations would have taken alone.

    `work` says how many measured iterations they amount to, when their sizes differ; None: as many as there were.
    """
    return round((iterations if work is None else work) * solo_ns)


def requests_served(waiting: int, batch: int) -> int:
    """How many of the waiting requests the next iteration takes, the oldest first: at most a batch."""
    return min(waiting, max(batch, 1))
