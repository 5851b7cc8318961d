"""Plans within a budget: a planner aims lower and lower until its plan's real peak is within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.plan import CannotFitError, Gap, Plan
from neaptide.planning.search.prefetch import prefetch_into_room
from neaptide.planning.search.waits import add_waits

# Gives the gaps for a target in bytes, then alternatives to fall back on. Their peaks may be above or below the target.
Make = Callable[[int], Iterable[Sequence[Gap]]]

_TRIES, _TRIES_IF_FOUND = 12, 3


def plan_within_budget(planner: str, scheduler: Scheduler, budget_bytes: int, make: Make) -> Plan:
    """The fastest plan found within the budget; CannotFitError if `make` gives none for any target tried.

    A planner may count bytes more simply than `apply`. When its plan exceeds the budget, the next target is lower by
    the excess, and after a few tries by a growing multiple of the excess.
    """
    if scheduler.trace.peak_bytes <= budget_bytes:
        return Plan(planner=planner)
    target, lowest = budget_bytes, scheduler.trace.peak_bytes
    found: list[tuple[float, Plan]] = []
    bound = min(lower_bound(scheduler.trace), budget_bytes)  # the last try aims here, to show the lowest peak
    for tried in range(_TRIES):
        peaks = []
        for gaps in make(target):
            plan = Plan(planner=planner, gaps=tuple(gaps))
            schedule = scheduler.schedule(plan)
            peaks.append(schedule.peak_bytes)
            if schedule.peak_bytes > budget_bytes and schedule.gaps.swap.any():
                schedule = schedule_within_budget(scheduler, schedule.gaps, budget_bytes if target else bound)
                plan = Plan(planner=planner, gaps=schedule.gaps.gaps())
            lowest = min(lowest, schedule.peak_bytes)
            if schedule.peak_bytes <= budget_bytes:
                found.append((schedule.seconds, plan))
            if peaks[0] <= budget_bytes:
                break
        # Waits and alternatives may be slow: the planner's first choice for a slightly lower target may be faster.
        if not peaks or target == 0 or peaks[0] <= budget_bytes or (found and tried >= _TRIES_IF_FOUND):
            break
        miss = max(peaks[0] - budget_bytes, budget_bytes >> 8)
        target = max(target - (miss << max(tried - 2, 0)), 0) if tried < _TRIES - 2 else 0
    if found:
        return min(found, key=lambda each: each[0])[1]
    raise CannotFitError(planner, budget_bytes, lowest, lower_bound(scheduler.trace))


def schedule_within_budget(scheduler: Scheduler, gaps: GapTable, budget_bytes: int) -> Schedule:
    """The schedule of some gaps in which copies in wait for room and ops wait for copies out, as the budget needs."""
    roomy = prefetch_into_room(scheduler, gaps, budget_bytes)
    return add_waits(scheduler, scheduler.schedule_gaps(roomy), budget_bytes)
