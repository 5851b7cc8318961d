"""A paper's planner is pure. Its plan keeps the budget, or it says how low it got."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError, Plan
from neaptide.planning.planners import capuchin, checkmate, dtr, echo, gist, swapadvisor
from properties.plans import DEVICE
from properties.training_steps import training_steps

PLANNERS = {
    "capuchin": (capuchin.plan, 20),
    "checkmate": (checkmate.plan, 8),
    "checkmate-rounded": (checkmate.plan_rounded, 10),
    "dtr": (dtr.plan, 30),
    "echo": (echo.plan, 30),
    "gist": (gist.plan, 20),
    "gist-lossy": (gist.plan_lossy, 30),
    "swapadvisor": (swapadvisor.plan, 5),
    "swapadvisor-in-order": (swapadvisor.plan_in_order, 5),
}


@pytest.mark.parametrize("name", PLANNERS)
def test_a_planner_is_pure_and_keeps_the_budget_or_says_how_low_it_got(name: str) -> None:
    planner, examples = PLANNERS[name]

    def outcome(trace, budget):  # type: ignore[no-untyped-def]
        try:
            return planner(trace, budget, DEVICE)
        except CannotFitError as failure:
            return (failure.lowest_bytes, failure.bound_bytes)

    @settings(max_examples=examples)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        trace = data.draw(training_steps())
        bound = lower_bound(trace)
        budget = bound + int(data.draw(st.sampled_from([-0.1, 0.2, 0.5, 0.8, 1.0])) * (trace.peak_bytes - bound))
        found = outcome(trace, budget)
        assert outcome(trace, budget) == found, "a planner is pure"
        if not isinstance(found, Plan):
            lowest, bounded = found
            assert bounded == min(bound, lowest)  # an order of its own can go below the bound of the trace's
            assert budget < lowest <= trace.peak_bytes
            assert bound <= lowest or name == "swapadvisor"
            return
        planned = apply(trace, found, DEVICE)  # raises if an op would read an absent tensor
        planned.check()
        assert planned.peak_bytes <= budget
        assert (found.gaps == () and found.order == ()) == (trace.peak_bytes <= budget)

    check()
