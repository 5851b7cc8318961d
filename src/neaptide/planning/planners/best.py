"""Our own planner: the best of what the others find and of a search of its own, within a time limit.

It begins with swaps that the link hides and with whole segments between narrow cuts, mends what is over the budget, and
then improves the fastest plan so far until the time is up; see `race`.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.plan import CannotFitError, Plan
from neaptide.planning.search.moves import Search
from neaptide.planning.search.race import Race

QUICK = ("vdnn", "superneurons", "echo", "gist")
NOT_IF_TIGHT = ("dtr", "capuchin")  # they would take many times as long, and do not do as well
TIME_LIMIT_SECONDS = 4.0
_SLOW = 1.02  # where to compute whole segments again may be worth a try


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec, time_limit_seconds: float = TIME_LIMIT_SECONDS) -> Plan:
    """The fastest plan found until the time is up; with little time it is that of the quickest methods.

    The limit counts the seconds that this thread computes.
    """
    if trace.peak_bytes <= budget_bytes:
        return Plan(planner="best")
    bound = lower_bound(trace)
    if budget_bytes < bound:  # only to say how low it could go
        time_limit_seconds *= 0.25
    race = Race(Search(trace, device, budget_bytes), thread_time() + time_limit_seconds)
    race.hidden_swaps()
    tight = not race.fits
    race.exchange(0.15)
    _take(race, QUICK if tight else (*QUICK, *NOT_IF_TIGHT))
    if tight or race.slowdown > _SLOW:
        race.segments()
    if not race.fits:
        race.last_resort()
    race.exchange(0.3)
    race.improve(0.7)
    race.exchange(1.0)
    if race.best is None or not race.fits:
        raise CannotFitError("best", budget_bytes, race.lowest_bytes, bound)
    return Plan(planner="best", gaps=race.best.gaps.gaps())


def _take(race: Race, names: Sequence[str]) -> None:
    """Take what other planners find, lossless plans only, and go on from there."""
    from neaptide.planning.planners import PLANNERS  # which names this planner, too

    search = race.search
    for name in names:
        if race.over:
            return
        try:
            made = PLANNERS[name](search.trace, search.budget_bytes, search.device)
        except CannotFitError as error:
            race.lowest_bytes = min(race.lowest_bytes, error.lowest_bytes)
            continue
        if made.lossless:
            race.take(search.judged(made.gaps))
            race.mend(search.actions_of(made))
