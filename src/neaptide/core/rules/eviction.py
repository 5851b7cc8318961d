"""Which job is moved to host memory when memory is short, and when it returns.

The memory grant keeps iterations from waiting for each other, as long as every iteration holds at most what was
expected. When an expectation fails, the budget falls, or a gate stays closed, all jobs may wait for memory. Then the
engine moves one job at a time to host memory until the others can go on. Both engines choose the job by this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neaptide.core.rules.admission import Demand, spare_bytes


@dataclass(frozen=True, slots=True)
class Holder:
    """A job on the device, as far as the choice of a victim depends on it."""

    job: str
    held_bytes: int
    age: int | None = None  # of its running iteration; smaller is older; None: it is between iterations
    waits: bool = False  # its iteration waits for memory
    held_by_gate: bool = False  # its iteration waits before a closed gate
    can_move: bool = True  # its process responds, and its memory is not being moved already


def choose_beneficiary(holders: Iterable[Holder]) -> Holder | None:
    """The iteration for which room is made: the oldest that waits for memory and is not held by a gate."""
    waiting = [each for each in holders if each.age is not None and each.waits and not each.held_by_gate]
    return min(waiting, key=lambda each: each.age or 0, default=None)


def choose_victim(holders: Sequence[Holder], beneficiary: str | None) -> Holder | None:
    """The job to move to host memory for the beneficiary, or for a lower budget; None when no job can be moved.

    Iterations that a gate holds back are chosen first, since they do not go on anyway, then other iterations; of each
    kind the youngest, which has the least to lose. Jobs between iterations come last; of these the one that holds the
    most, so that few jobs move, and of equals the last in `holders`. Iterations go before jobs between iterations
    because an iteration that goes on waiting would take the freed memory again.
    """
    movable = [each for each in holders if each.can_move and each.held_bytes > 0 and each.job != beneficiary]
    for some in (
        [each for each in movable if each.age is not None and each.held_by_gate],
        [each for each in movable if each.age is not None],
    ):
        if some:
            return max(some, key=lambda each: each.age or 0)
    return max(reversed(movable), key=lambda each: each.held_bytes, default=None)


@dataclass(frozen=True, slots=True)
class Evicted:
    """A job that was moved to host memory by this rule."""

    job: str
    demand: Demand
    # The iteration for which it was moved has ended, has left the device, or cannot need more than is expected of it.
    # On real processes, a job that returned earlier would retake the memory that its beneficiary lacked.
    beneficiary_safe: bool


def choose_return(evicted: Iterable[Evicted], admitted: Iterable[Demand], budget_bytes: int) -> Evicted | None:
    """The evicted job to move back now; None when none may return. Ask again after each return.

    A job returns when its beneficiary is safe and the admission rule holds with it among the admitted jobs. The first
    evicted returns first. A job that does not fit does not hold up the ones after it.
    """
    inside = list(admitted)
    for each in evicted:
        if each.beneficiary_safe and spare_bytes([*inside, each.demand], budget_bytes) >= 0:
            return each
    return None
