"""Our own planner: the best of other planners' plans and of a local search.

Its plan is never slower than that of any planner in `KNOWN`, and it finds a plan wherever one of `KNOWN` or
`LAST_RESORTS` does: their plans are taken however long that lasts. The time limit is for the search, which begins with
swaps that the link hides and with whole segments between narrow cuts, mends what is over the budget, and then improves
the fastest plan so far until the time is up; see `search.local_search`.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.plan import CannotFitError, Plan
from neaptide.planning.search.evaluator import Evaluator
from neaptide.planning.search.local_search import LocalSearch

KNOWN = ("vdnn-conv", "vdnn-all", "vdnn", "superneurons", "echo", "gist", "dtr", "capuchin")
LAST_RESORTS = ("swapadvisor-in-order", "checkmate-rounded")  # asked only if nothing else fits
TIME_LIMIT_SECONDS = 4.0
_SLOW = 1.02  # a slowdown above which recomputing whole segments is tried


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec, time_limit_seconds: float = TIME_LIMIT_SECONDS) -> Plan:
    """The fastest plan found before the time is up, and at least as fast as every known planner's.

    The limit counts the seconds that this thread computes.
    """
    if trace.peak_bytes <= budget_bytes:
        return Plan(planner="best")
    bound = lower_bound(trace)
    if budget_bytes < bound:  # the search only finds out the lowest peak, for the error
        time_limit_seconds *= 0.25
    search = LocalSearch(Evaluator(trace, device, budget_bytes), thread_time() + time_limit_seconds)
    search.hidden_swaps()
    tight = not search.fits
    search.exchange(0.15)
    _take_plans_of(KNOWN, search)
    if tight or search.slowdown > _SLOW:
        search.segments()
    if not search.fits:
        search.last_resort()
    search.exchange(0.3)
    search.improve(0.7)
    search.exchange(1.0)
    if not search.fits and budget_bytes >= bound:
        _take_plans_of(LAST_RESORTS, search)
    if search.best is None or not search.fits:
        raise CannotFitError("best", budget_bytes, search.lowest_bytes, bound)
    return Plan(planner="best", gaps=search.best.gaps.gaps())


def _take_plans_of(names: Sequence[str], search: LocalSearch) -> None:
    """Offer the lossless plans of other planners to the search, and mend them."""
    from neaptide.planning.planners import PLANNERS  # here, because that module names this one

    evaluator = search.evaluator
    for name in names:
        try:
            made = PLANNERS.make(name)(evaluator.trace, evaluator.budget_bytes, evaluator.device)
        except CannotFitError as error:
            search.lowest_bytes = min(search.lowest_bytes, error.lowest_bytes)
            continue
        if made.lossless:
            search.take(evaluator.outcome_of_gaps(made.gaps))
            if not search.finished:
                search.mend(evaluator.actions_of(made))
