"""DTR: evict the tensor with the least cost over bytes times staleness."""

from __future__ import annotations

from neaptide.planning.apply import apply
from neaptide.planning.plan import Return
from neaptide.planning.planners import dtr
from steps import chain_step, device


def test_among_equal_tensors_the_stalest_is_evicted() -> None:
    trace = chain_step([10] * 6)
    plan = dtr.plan(trace, trace.peak_bytes - 10, device())
    assert [(gap.tensor, gap.back) for gap in plan.gaps] == [(0, Return.RECOMPUTE)]


def test_cheap_and_large_tensors_are_evicted_first() -> None:
    cheap = chain_step([10] * 6, seconds=[50, 50, 0.1, 50, 50, 50])
    assert {gap.tensor for gap in dtr.plan(cheap, cheap.peak_bytes - 10, device()).gaps} == {2}
    large = chain_step([10, 10, 1000, 10, 10, 10])
    assert {gap.tensor for gap in dtr.plan(large, large.peak_bytes - 10, device()).gaps} == {2}


def test_a_tensor_is_evicted_only_when_memory_is_short() -> None:
    trace = chain_step([10] * 6)
    (gap,) = dtr.plan(trace, 60, device()).gaps
    # Tensor 0 was last used by op 1, but there is room until op 5 makes the last tensor.
    assert (gap.after, gap.before) == (4, 11)


def test_a_recomputed_tensor_stays_until_it_is_evicted_again() -> None:
    trace = chain_step([10] * 8)
    planned = apply(trace, dtr.plan(trace, 52, device()), device())
    assert planned.peak_bytes <= 52
    names = [planned.ops.name[row] for row in range(len(planned.ops))]
    # Three tensors were evicted. One chain brings all of them back, although the backward ops need them one by one.
    assert names.count("recompute:aten::mm") == 3
