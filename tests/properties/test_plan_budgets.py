"""For any trace and budget, a planner's plan keeps the budget, or the planner says how low it got."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError, Plan
from neaptide.planning.planners import PLANNERS, best
from properties.plans import training_traces
from properties.training_steps import training_steps

DEVICE = find_device("soft")
QUICK = ("liveness", "vdnn", "vdnn-all", "superneurons", "capuchin", "dtr", "echo", "gist", "best")


def plan_by(name: str, trace: Trace, budget_bytes: int) -> Plan:
    if name == "best":
        return best.plan(trace, budget_bytes, DEVICE, time_limit_seconds=0.01)
    return PLANNERS.make(name)(trace, budget_bytes, DEVICE)


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=30)
@given(trace=training_traces() | training_steps(), share=st.floats(0, 1.1))
def test_a_plan_keeps_the_budget_or_the_planner_says_how_low_it_got(name: str, trace: Trace, share: float) -> None:
    bound = lower_bound(trace)
    budget = int(share * trace.peak_bytes)
    refusal = None
    try:
        plan = plan_by(name, trace, budget)
    except CannotFitError as error:
        refusal = error
    if refusal is not None:
        assert refusal.bound_bytes == bound <= refusal.lowest_bytes
        assert refusal.lowest_bytes > budget
        return
    planned = apply(trace, plan, DEVICE)
    planned.check()
    assert bound <= planned.peak_bytes <= budget
