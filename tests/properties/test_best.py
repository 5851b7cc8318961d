"""For any trace and budget, `best` fits wherever a planner that it knows fits, and is as fast."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.apply import Summary, summary_of
from neaptide.planning.plan import CannotFitError
from neaptide.planning.planners import PLANNERS, best
from properties.plans import training_traces
from properties.training_steps import training_steps

DEVICE = find_device("soft")


def found_by(name: str, trace: Trace, budget_bytes: int) -> Summary | None:
    try:
        return summary_of(trace, PLANNERS.make(name)(trace, budget_bytes, DEVICE), DEVICE)
    except CannotFitError:
        return None


@settings(max_examples=20)
@given(trace=training_traces() | training_steps(), share=st.floats(0, 1))
def test_best_is_never_worse_than_a_planner_that_it_knows(trace: Trace, share: float) -> None:
    bound = lower_bound(trace)
    budget = bound + int(share * (trace.peak_bytes - bound))
    known = {name: found_by(name, trace, budget) for name in best.KNOWN}
    others = {name: found_by(name, trace, budget) for name in best.LAST_RESORTS}
    try:
        # Without time, the search tries nothing of its own.
        ours = summary_of(trace, best.plan(trace, budget, DEVICE, time_limit_seconds=0.0), DEVICE)
    except CannotFitError:
        assert not any({**known, **others}.values())
        return
    assert ours.peak_bytes <= budget
    for name, other in known.items():
        assert other is None or ours.seconds <= other.seconds * (1 + 1e-9), name
