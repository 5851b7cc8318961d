"""SwapAdvisor: Belady's rule, improved by search."""

from __future__ import annotations

from neaptide.planning.apply import apply
from neaptide.planning.plan import Return
from neaptide.planning.planners import swapadvisor
from steps import chain_step, device


def test_the_tensor_whose_next_use_is_furthest_is_swapped() -> None:
    trace = chain_step([10] * 6)
    plan = swapadvisor.plan(trace, trace.peak_bytes - 10, device(link_bandwidth=10.0))
    assert [(gap.tensor, gap.back) for gap in plan.gaps] == [(0, Return.SWAP)]
    assert apply(trace, plan, device(link_bandwidth=10.0)).seconds == trace.seconds


def test_if_the_link_is_too_slow_ops_wait_and_the_budget_is_kept() -> None:
    trace = chain_step([10] * 6)
    slow = device(link_bandwidth=2.0)
    planned = apply(trace, swapadvisor.plan(trace, 41, slow), slow)
    assert planned.peak_bytes <= 41
    assert planned.seconds > trace.seconds


def test_the_search_finds_a_free_swap_where_beladys_rule_alone_makes_an_op_wait() -> None:
    # Tensor 0 is used last but takes 20 s each way; swapping the small tensor 1 is enough.
    trace = chain_step([200, 10, 10, 10, 10, 10])
    link = device(link_bandwidth=10.0)
    planned = apply(trace, swapadvisor.plan(trace, trace.peak_bytes - 10, link), link)
    assert planned.seconds == trace.seconds
