"""SwapAdvisor: Belady's rule, improved by search."""

from __future__ import annotations

import pytest
from rich.console import Console

from builders import Op, Tensor, make_trace
from neaptide.core.traces.trace import Kind, Phase
from neaptide.planning.apply import apply, summary_of
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.plan import CannotFitError, Plan, Return
from neaptide.planning.planners import swapadvisor
from neaptide.reporting.terminal.plan_table import Attempt, attempt_values, print_attempts
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


def two_branches():  # type: ignore[no-untyped-def]
    """Ops 0 and 1 make 10 bytes each; op 2 reduces the first to a byte, op 3 the second; op 4 reads both bytes."""
    sizes, lives = [10, 10, 1, 1, 1], [(0, 2), (1, 3), (2, 4), (3, 4), (4, 4)]
    reads = [(5,), (5,), (0,), (1,), (2, 3)]
    return make_trace(
        [
            Op(name="aten::mm", phase=Phase.BACKWARD if op == 4 else Phase.FORWARD, reads=read, writes=(op,))
            for op, read in enumerate(reads)
        ],
        [
            *(Tensor(bytes=size, born=born, died=died) for size, (born, died) in zip(sizes, lives, strict=True)),
            Tensor(bytes=1, born=-1, died=5, kind=Kind.INPUT),
        ],
        asynchronous=False,
    )


def test_the_order_of_independent_ops_is_part_of_the_search() -> None:
    # In the program's order both branches' 10 bytes are held at once: 1 + 10 + 10 + 1. One branch after the other
    # never holds more than 1 + 10 + 1 + 1, without any swap.
    trace = two_branches()
    assert trace.peak_bytes == 22
    plan = swapadvisor.plan(trace, 13, device(link_bandwidth=0.1))
    assert plan.gaps == ()
    assert plan.order in ((0, 2, 1, 3, 4), (1, 3, 0, 2, 4))
    planned = apply(trace, plan, device())
    assert (planned.peak_bytes, planned.seconds) == (13, trace.seconds)
    assert summary_of(trace, plan, device()).unplanned_peak_bytes == 22


def test_in_the_programs_own_order_the_same_budget_cannot_be_met() -> None:
    with pytest.raises(CannotFitError, match="swapadvisor-in-order cannot meet 13 B: it reaches 22 B"):
        swapadvisor.plan_in_order(two_branches(), 13, device())


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ((0, 1, 3, 2), "does not name every op once"),
        ((2, 0, 1, 3, 4), "runs op 2 .* before op 0"),
    ],
)
def test_an_order_that_breaks_a_dependency_is_no_plan(order: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        apply(two_branches(), Plan(planner="hand", order=order), device())


def test_a_scheduler_of_the_programs_order_refuses_a_plan_with_another() -> None:
    trace = two_branches()
    with pytest.raises(ValueError, match="which reorder the trace"):
        Scheduler(trace, device()).schedule(swapadvisor.plan(trace, 13, device()))


def test_the_table_of_plans_marks_one_that_reorders_ops() -> None:
    trace, out = two_branches(), Console(record=True, width=100)
    plan = swapadvisor.plan(trace, 13, device())
    attempts = [Attempt("swapadvisor", plan, summary_of(trace, plan, device()), 0.1)]
    print_attempts(trace, device(), 13, 13, attempts, out)
    text = out.export_text()
    assert "swapadvisor +" in text
    assert "+ this plan runs ops in another order" in text
    assert attempt_values(attempts)[0]["reorders"]
