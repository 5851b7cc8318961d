"""How long the daemon waits before it concludes something about a process. Wall-clock time, one constant per fact."""

from __future__ import annotations

TICK_SECONDS = 0.05  # between looks at the board while jobs share the device
TICK_NS = 50_000_000
STUCK_TICKS = 2  # without progress, and with no kernel on the device: an iteration that waits for memory is stuck
STARVING_TICKS = 20  # without progress, while other iterations go on: it starves, unless theirs take longer
OVER_BUDGET_TICKS = 10  # with more leased than a budget that was lowered: a job is moved to host memory
STOPPED_NS = 300_000_000  # without progress, in a stopped process: the job is unresponsive
UNUSED_PERMIT_NS = 1_000_000_000  # with a permit and no iteration begun: the job is unresponsive
HANGING_NS = 5_000_000_000  # without progress inside an iteration: the job is unresponsive
HANGING_ITERATIONS = 5  # An iteration hangs only after this many times what it takes alone.
# A new job has waited this long for memory: room is made for it. While iterations of others go on, their memory may
# come free by itself.
NEWCOMER_WAITS_NS = 80_000_000
NEWCOMER_STARVES_NS = 1_000_000_000
NEWCOMER_IDLE_NS = 1_000_000_000  # a new job for which room was made uses it no more: the others return
# Room made for a new job lasts ROOM_NS, or ROOM_WORTH times as long as it took to make if that is longer, and
# LONGEST_ROOM_NS at most. Then the others have their room for as long.
ROOM_NS = 2_000_000_000
ROOM_WORTH = 20
LONGEST_ROOM_NS = 60_000_000_000
COUNTED_NS = 2_000_000_000  # a new job counts with the most that it held within this time
# Once the beneficiary has ended and this much time has passed since the eviction was asked, or this many turns if that
# is longer, the job returns without the admission check: the policy does not let it take turns with the others.
EVICTED_NS = 2_000_000_000
EVICTED_TURNS = 4
ASK_AGAIN_NS = 200_000_000  # a process that dropped a request to restore its memory is asked again
KEPT_NS = 10_000_000_000  # a process that could not move its memory to the host is not asked again for this long


def hanging_ns(solo_ns: int) -> int:
    """Time without progress after which an iteration that takes `solo_ns` alone is taken to hang."""
    return max(HANGING_NS, HANGING_ITERATIONS * solo_ns)


def iteration_ticks(solo_ns: int, recent_ns: int) -> int:
    """Looks in which an iteration ends that takes `solo_ns` alone and took `recent_ns` of late.

    On a busy machine it takes longer than alone. What it took of late may have been a wait, so that is bounded.
    """
    return min(max(solo_ns, recent_ns), HANGING_ITERATIONS * solo_ns) // TICK_NS


def room_ns(made_ns: int) -> int:
    """How long room for a new job lasts if it took `made_ns` to move the others away."""
    return max(ROOM_NS, min(ROOM_WORTH * made_ns, LONGEST_ROOM_NS))
