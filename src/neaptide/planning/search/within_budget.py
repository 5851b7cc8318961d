"""How a planner keeps its promise: it aims lower until `apply` finds the budget kept, or says how low it got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.prefetch import fetched_into_room
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.costing.stalls import waiting
from neaptide.planning.plan import CannotFitError, Gap, Plan

# The gaps for a target in bytes, and others to fall back on; they may miss the target, either way.
Make = Callable[[int], Iterable[Sequence[Gap]]]

_TRIES, _TRIES_IF_FOUND = 12, 3


def plan_within_budget(planner: str, scheduler: Scheduler, budget_bytes: int, make: Make) -> Plan:
    """The plan for the highest target that keeps the budget; CannotFitError if none of those tried does.

    A planner counts bytes more simply than `apply`, so each miss lowers the target by what it was missed by, and then
    by more and more. Of several plans that keep the budget it is the fastest.
    """
    if scheduler.trace.peak_bytes <= budget_bytes:
        return Plan(planner=planner)
    target, lowest = budget_bytes, scheduler.trace.peak_bytes
    found: list[tuple[float, Plan]] = []
    bound = min(lower_bound(scheduler.trace), budget_bytes)  # the last attempt shows how low it can go
    for tried in range(_TRIES):
        peaks = []
        for gaps in make(target):
            plan = Plan(planner=planner, gaps=tuple(gaps))
            schedule = scheduler.schedule(plan)
            peaks.append(schedule.peak_bytes)
            if schedule.peak_bytes > budget_bytes and schedule.gaps.swap.any():
                schedule = within_by_waiting(scheduler, plan.gaps, budget_bytes if target else bound)
                plan = Plan(planner=planner, gaps=schedule.gaps.gaps())
            lowest = min(lowest, schedule.peak_bytes)
            if schedule.peak_bytes <= budget_bytes:
                found.append((schedule.seconds, plan))
            if peaks[0] <= budget_bytes:
                break
        # Waiting, and a plan to fall back on, may be slow: the planner's first choice may fit for a little less.
        if not peaks or target == 0 or peaks[0] <= budget_bytes or (found and tried >= _TRIES_IF_FOUND):
            break
        miss = max(peaks[0] - budget_bytes, budget_bytes >> 8)
        target = max(target - (miss << max(tried - 2, 0)), 0) if tried < _TRIES - 2 else 0
    if found:
        return min(found, key=lambda each: each[0])[1]
    raise CannotFitError(planner, budget_bytes, lowest, lower_bound(scheduler.trace))


def within_by_waiting(scheduler: Scheduler, gaps: Sequence[Gap], budget_bytes: int) -> Schedule:
    """The gaps carried out, with copies in that wait for room and ops that wait for copies out, as the budget asks."""
    roomy = fetched_into_room(scheduler, GapTable.of(scheduler.trace, gaps), budget_bytes)
    return waiting(scheduler, scheduler.carried_out(roomy), budget_bytes)
