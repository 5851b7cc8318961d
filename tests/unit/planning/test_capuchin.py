"""Capuchin: hidden swaps first, then the cheaper of swapping and recomputing."""

from __future__ import annotations

import pytest

from neaptide.planning.apply import apply, summary_of
from neaptide.planning.plan import CannotFitError, Return
from neaptide.planning.planners import capuchin
from steps import chain_step, device


def test_the_swap_with_the_most_free_time_is_taken_first_and_costs_nothing() -> None:
    # Tensor 0 is idle longest, from op 1 to op 11; its copy takes 1 s each way.
    trace = chain_step([10] * 6)
    plan = capuchin.plan(trace, trace.peak_bytes - 10, device(link_bandwidth=10.0))
    assert [(gap.tensor, gap.back) for gap in plan.gaps] == [(0, Return.SWAP)]
    assert apply(trace, plan, device(link_bandwidth=10.0)).seconds == trace.seconds


def test_a_tensor_whose_swap_a_slow_link_cannot_hide_is_recomputed() -> None:
    trace = chain_step([10] * 6)
    slow = device(link_bandwidth=0.1)  # 100 s each way
    plan = capuchin.plan(trace, trace.peak_bytes - 10, slow)
    assert {gap.back for gap in plan.gaps} == {Return.RECOMPUTE}
    assert apply(trace, plan, slow).seconds == trace.seconds + 1


def test_the_recomputation_that_saves_the_most_bytes_per_second_is_taken() -> None:
    trace = chain_step([10] * 6, seconds=[1, 1, 5, 0.5, 1, 1])
    slow = device(link_bandwidth=0.01)
    plan = capuchin.plan(trace, trace.peak_bytes - 10, slow)
    assert [(gap.tensor, gap.back) for gap in plan.gaps] == [(3, Return.RECOMPUTE)]


def test_swaps_share_the_link_so_a_second_swap_of_the_same_time_is_not_hidden() -> None:
    # One copy takes 4 s. Tensor 0 is copied out from 2 to 6 s and in from 11 to 15 s. The copy out of tensor 1 would
    # end at 10 s, but its copy in would have to begin at 7 s.
    trace = chain_step([10] * 8)
    link = device(link_bandwidth=2.5)
    plan = capuchin.plan(trace, trace.peak_bytes - 20, link)
    summary = summary_of(trace, plan, link)
    assert (summary.swaps, summary.recomputed) == (1, 1)
    assert summary.seconds == trace.seconds + 1


def test_a_budget_that_capuchin_cannot_meet_is_refused_with_its_lowest_peak_and_the_bound() -> None:
    trace = chain_step([10] * 6)
    with pytest.raises(
        CannotFitError, match=r"capuchin cannot meet 5 B: it reaches \d+ B, and no plan can go below 21 B"
    ):
        capuchin.plan(trace, 5, device())


def test_a_swap_that_would_make_another_late_is_not_taken() -> None:
    # Tensor 0 takes 8 s each way. A second swap would help, but would make tensor 0 come back late.
    trace = chain_step([20] + [10] * 9)
    link = device(link_bandwidth=2.5)
    summary = summary_of(trace, capuchin.plan(trace, trace.peak_bytes - 20, link), link)
    assert (summary.swaps, summary.recomputed, summary.waited_seconds) == (1, 1, 0.0)
