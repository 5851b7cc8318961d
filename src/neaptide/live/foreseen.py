"""What an iteration may yet come to hold, step by step: the board keeps that room for it from younger iterations."""

from __future__ import annotations

import numpy as np

from neaptide.core.profile import DEFAULT_IN_FLIGHT, held_ahead
from neaptide.core.trace import Trace

STEPS = 256
# Beyond this a process holds what it does not need, and the daemon's watchdog is there for the rest.
_MOST_SPARE = 1.25


def foreseen_bytes(trace: Trace, held_bytes: int, needed_bytes: int) -> list[int]:
    """The most bytes from each of equally long steps on to the end, in leases.

    Leases are chunks, and more than the blocks in them: how much more was seen while it was measured, when the process
    held `held_bytes` at most and needed `needed_bytes`.
    """
    spare = min(max(held_bytes / max(needed_bytes, 1), 1.0), _MOST_SPARE)
    held = held_ahead(trace.held_bytes, DEFAULT_IN_FLIGHT)
    to_come = np.maximum.accumulate(held[::-1])[::-1]
    starts = np.arange(STEPS) * len(trace.ops) // STEPS
    levels: list[int] = np.ceil(to_come[starts] * spare).astype(np.int64).tolist()
    return levels
