"""Capuchin: hidden swaps first, then the cheaper way."""

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


def test_what_a_slow_link_cannot_hide_is_recomputed() -> None:
    trace = chain_step([10] * 6)
    slow = device(link_bandwidth=0.1)  # 100 s each way
    plan = capuchin.plan(trace, trace.peak_bytes - 10, slow)
    assert {gap.back for gap in plan.gaps} == {Return.RECOMPUTE}
    assert apply(trace, plan, slow).seconds == trace.seconds + 1


def test_of_two_recomputations_the_one_that_saves_more_bytes_per_second_is_taken() -> None:
    trace = chain_step([10] * 6, seconds=[1, 1, 5, 0.5, 1, 1])
    slow = device(link_bandwidth=0.01)
    plan = capuchin.plan(trace, trace.peak_bytes - 10, slow)
    assert [(gap.tensor, gap.back) for gap in plan.gaps] == [(3, Return.RECOMPUTE)]


def test_swaps_share_the_link_so_a_second_one_is_not_hidden_by_the_same_time() -> None:
    # One copy takes 4 s. Tensor 0 leaves from 2 to 6 s and returns from 11 to 15 s; tensor 1 would leave until 10 s and
    # have to return from 7 s on.
    trace = chain_step([10] * 8)
    link = device(link_bandwidth=2.5)
    plan = capuchin.plan(trace, trace.peak_bytes - 20, link)
    summary = summary_of(trace, plan, link)
    assert (summary.swaps, summary.recomputed) == (1, 1)
    assert summary.seconds == trace.seconds + 1


def test_below_its_reach_it_says_how_low_it_got_and_what_bounds_all() -> None:
    trace = chain_step([10] * 6)
    with pytest.raises(
        CannotFitError, match=r"capuchin cannot meet 5 B: it reaches \d+ B, and no plan can go below 21 B"
    ):
        capuchin.plan(trace, 5, device())


def test_a_swap_that_would_make_another_late_is_not_taken() -> None:
    # Beside tensor 0, which takes 8 s each way, a second swap would help, but make tensor 0 come back late.
    trace = chain_step([20] + [10] * 9)
    link = device(link_bandwidth=2.5)
    summary = summary_of(trace, capuchin.plan(trace, trace.peak_bytes - 20, link), link)
    assert (summary.swaps, summary.recomputed, summary.waited_seconds) == (1, 1, 0.0)
