"""How long a job stays on the device where jobs that do not fit together take turns: long enough to be worth moving.

A server without a request uses its turn for nothing, and so makes way earlier.
"""

from __future__ import annotations

ITERATIONS = 50  # of the job alone, at least
_WORTH = 20  # times what the moves to host memory and back take
_LONGEST_NS = 10_000_000_000  # the longest turn that slow moves cause: a slower move has waited for something else
_LINK_BYTES_PER_NS = 10.0  # roughly the bandwidth of a device's link to the host


def worth_a_copy_ns(persistent_bytes: int) -> float:
    """The least time for which moving a job of this size is worth its cost, before a move was measured."""
    return _WORTH * (persistent_bytes / _LINK_BYTES_PER_NS)


def idle_ns(persistent_bytes: int, moved_ns: int) -> float:
    """How long a server stays on the device without a request before it makes way: as long as its move takes.

    So moves take at most as much time as servers are idle, however often requests come to one and the other.
    """
    return max(persistent_bytes / _LINK_BYTES_PER_NS, min(moved_ns, _LONGEST_NS / _WORTH))


def turn_ns(solo_ns: int, persistent_bytes: int, moved_ns: int) -> float:
    """The length of a turn; `moved_ns` is what the job's last move took, 0 if it never moved."""
    return max(ITERATIONS * solo_ns, worth_a_copy_ns(persistent_bytes), min(_WORTH * moved_ns, _LONGEST_NS))
