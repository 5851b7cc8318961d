"""How long the daemon waits before it concludes something about a process. Wall-clock time, one constant per fact."""

from __future__ import annotations

TICK_SECONDS = 0.05  # between looks at the board while jobs share the device
STUCK_TICKS = 2  # without progress: an iteration that waits for memory is stuck
STARVING_TICKS = 20  # without progress, while other iterations go on: it starves
STOPPED_NS = 300_000_000  # without progress, in a stopped process: the job is unresponsive
UNUSED_PERMIT_NS = 1_000_000_000  # with a permit and no iteration begun: the job is unresponsive
HANGING_NS = 5_000_000_000  # without progress inside an iteration: the job is unresponsive
HANGING_ITERATIONS = 5  # or this many times what an iteration takes alone, if that is longer
MEASURING_HANGS_NS = 20_000_000_000  # without progress while the job is measured: it loses its turn
NEWCOMER_WAITS_NS = 80_000_000  # a new job has waited this long for memory: room is made for it
# Once this much time has passed since the eviction was asked and the beneficiary has ended, the job returns without the
# admission check.
EVICTED_NS = 2_000_000_000
ASK_AGAIN_NS = 200_000_000  # a process that dropped a request to move its memory is asked again


def hanging_ns(solo_ns: int) -> int:
    """Time without progress after which an iteration that takes `solo_ns` alone is taken to hang."""
    return max(HANGING_NS, HANGING_ITERATIONS * solo_ns)
