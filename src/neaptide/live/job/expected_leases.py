"""What an iteration may yet come to hold, step by step: the board keeps that room for it from younger iterations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neaptide.core.traces.curve import Integers
from neaptide.core.traces.profile import DEFAULT_IN_FLIGHT, held_ahead
from neaptide.core.traces.trace import Trace

# Beyond this share of the peak a process holds what it does not need, and the daemon's watchdog is there for the rest.
_MOST_SPARE = 0.25


@dataclass(frozen=True, slots=True)
class Spare:
    """What a process held beside what it needed when it was measured: leases are chunks, with gaps between blocks.

    The gaps come with blocks that are freed, so that there are few when it comes to its peak.
    """

    peak_bytes: int  # at the most that it held
    most_bytes: int  # at any time, when a block that fitted into no gap took new chunks


def foreseen_bytes(trace: Trace, op_of_kernel: Integers | None, spare: Spare) -> list[int]:
    """The most leases from each kernel of an iteration on to its end; without `op_of_kernel` from each op on."""
    needed = held_ahead(trace.held_bytes, DEFAULT_IN_FLIGHT)
    most_bytes = min(spare.most_bytes, round(_MOST_SPARE * trace.peak_bytes))
    held = needed + most_bytes
    held[: int(np.argmax(needed)) + 1] += min(spare.peak_bytes, most_bytes) - most_bytes
    to_come = np.maximum.accumulate(held[::-1])[::-1]
    if op_of_kernel is not None and op_of_kernel.size:
        # A kernel that was taken for one of a later op must not make what comes before that look done.
        to_come = to_come[np.minimum.accumulate(op_of_kernel[::-1])[::-1]]
    levels: list[int] = to_come.tolist()
    return levels
