"""Checkmate on traces: its plans cost what the integer program says and keep the budget."""

from __future__ import annotations

import numpy as np
import pytest

from neaptide.planning.analysis.recompute_chains import RecomputeChains
from neaptide.planning.apply import apply
from neaptide.planning.checkmate.coarse_graph import coarse_graph
from neaptide.planning.checkmate.problem import hold_everything, stage_peaks
from neaptide.planning.checkmate.solver import optimal
from neaptide.planning.plan import CannotFitError, Return
from neaptide.planning.planners import checkmate
from steps import chain_step, device


def test_the_coarse_graph_of_a_short_trace_has_a_node_per_op() -> None:
    trace = chain_step([10] * 5)
    coarse = coarse_graph(trace, RecomputeChains(trace), 48)
    assert coarse.first_op.tolist() == list(range(11))
    everything = hold_everything(coarse.graph)
    assert stage_peaks(coarse.graph, everything).tolist() == trace.held_bytes.tolist()
    assert coarse.gaps(everything) == []


def test_the_coarse_graph_of_a_long_trace_has_at_most_the_allowed_nodes() -> None:
    trace = chain_step([10] * 100)
    coarse = coarse_graph(trace, RecomputeChains(trace), 20)
    assert 15 <= len(coarse.graph) <= 20
    assert coarse.graph.repeatable.sum() == 10


def test_cuts_through_equal_ops_are_evenly_spaced() -> None:
    trace = chain_step([10] * 100)
    first_ops = coarse_graph(trace, RecomputeChains(trace), 20).first_op
    assert np.diff(first_ops[:10]).tolist() == [10] * 9


@pytest.mark.parametrize("share", [0.6, 0.7, 0.85])
def test_the_plan_costs_what_the_integer_program_found(share: float) -> None:
    trace = chain_step([10, 30, 10, 20, 10, 10], seconds=[1, 2, 1, 3, 1, 1])
    budget = int(share * trace.peak_bytes)
    plan = checkmate.plan(trace, budget, device())
    planned = apply(trace, plan, device())
    assert {gap.back for gap in plan.gaps} == {Return.RECOMPUTE}
    assert planned.peak_bytes <= budget
    graph = coarse_graph(trace, RecomputeChains(trace), 48).graph
    answer, proven = optimal(graph, budget)
    assert proven
    assert answer is not None
    again = answer.run.sum(axis=0) - 1
    assert planned.seconds == pytest.approx(trace.seconds + float(again @ graph.seconds))


def test_rounding_is_within_six_percent_of_the_optimum_on_a_small_chain() -> None:
    trace = chain_step([10, 30, 10, 20, 10, 10, 20, 10], seconds=[1, 2, 1, 3, 1, 1, 2, 1])
    for budget in np.array([0.55, 0.75]) * trace.peak_bytes:
        best = apply(trace, checkmate.plan(trace, int(budget), device()), device())
        near = apply(trace, checkmate.plan_rounded(trace, int(budget), device()), device())
        assert near.peak_bytes <= budget
        assert best.seconds <= near.seconds <= 1.06 * best.seconds


def test_a_budget_that_checkmate_cannot_meet_is_refused_with_its_lowest_peak_and_the_bound() -> None:
    trace = chain_step([10] * 6)
    with pytest.raises(
        CannotFitError, match=r"checkmate cannot meet 15 B: it reaches 2\d B, and no plan can go below 21 B"
    ):
        checkmate.plan(trace, 15, device())
