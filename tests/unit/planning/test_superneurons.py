"""SuperNeurons' golden case: AlexNet with a batch of 200, in MB of 2^20 bytes, as the paper prints them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.layer_kinds import LayerKind
from neaptide.planning.apply import apply, summary_of
from neaptide.planning.plan import CannotFitError, Plan
from neaptide.planning.planners import liveness, superneurons
from neaptide.planning.planners.superneurons import Pool, Recomputation
from neaptide.reproductions.networks.layers import network_trace
from neaptide.reproductions.networks.limits import live_trace
from neaptide.reproductions.networks.superneurons_networks import alexnet, resnet
from steps import chain_step, device

DEVICE = find_device("K40")
UNTIMED = replace(DEVICE, link_bandwidth=1e15)  # the paper's figures ignore time: every copy is in time
PLENTY = 1 << 40


def megabytes(amount: float) -> float:
    return round(amount / 2**20, 3)


@pytest.fixture(scope="module")
def baseline() -> Trace:
    return network_trace(alexnet(200), DEVICE)


@pytest.fixture(scope="module")
def trace(baseline: Trace) -> Trace:
    return apply(baseline, liveness.plan(baseline, PLENTY, DEVICE), DEVICE)


def test_without_any_technique_alexnet_holds_all_results_and_all_gradients(baseline: Trace) -> None:
    baseline.check()
    assert megabytes(baseline.peak_bytes) == 2189.437


def test_liveness_lowers_the_peak_to_1489_mb_at_the_backward_of_the_last_pooling(trace: Trace) -> None:
    trace.check()
    assert megabytes(trace.peak_bytes) == 1489.355
    assert trace.ops.module[int(trace.held_bytes.argmax())] == "pooling 14"


@pytest.mark.parametrize(
    ("way", "peak", "reruns"),
    [
        (Recomputation.NONE, 1132.056, 0),  # the paper prints 1132.155
        (Recomputation.SPEED, 993.018, 14),
        (Recomputation.MEMORY, 886.23, 23),
        (Recomputation.COST_AWARE, 886.23, 17),
    ],
)
def test_offloading_and_recomputation_lower_the_peak_further(
    trace: Trace, way: Recomputation, peak: float, reruns: int
) -> None:
    pool = Pool.of(trace)
    plan = Plan(planner="superneurons", gaps=pool.gaps(len(pool.offloadable), way))
    apply(trace, plan, UNTIMED).check()
    summary = summary_of(trace, plan, UNTIMED)
    assert (megabytes(summary.peak_bytes), summary.reruns) == (peak, reruns)


def test_the_peaks_are_at_the_backward_of_the_layers_that_arithmetic_by_hand_gives(trace: Trace) -> None:
    pool, everything = Pool.of(trace), len(Pool.of(trace).offloadable)
    for way, layer in ((Recomputation.NONE, "pooling 7"), (Recomputation.SPEED, "pooling 3")):
        planned = apply(trace, Plan(planner="superneurons", gaps=pool.gaps(everything, way)), UNTIMED)
        assert planned.ops.module[int(planned.held_bytes.argmax())] == layer


def test_only_the_first_segment_is_too_large_to_keep(trace: Trace) -> None:
    labels = {trace.tensors.label[tensor] for tensor in Pool.of(trace).memory_centric}
    assert labels == {"activation 1", "normalization 2", "pooling 3"}


def test_no_tensor_is_offloaded_while_memory_suffices(trace: Trace) -> None:
    assert superneurons.plan(trace, trace.peak_bytes, DEVICE).gaps == ()


def test_no_more_is_offloaded_than_the_budget_needs_and_the_oldest_tensor_goes_first(trace: Trace) -> None:
    plan = superneurons.plan(trace, trace.peak_bytes - 1, DEVICE)
    assert [trace.tensors.label[gap.tensor] for gap in plan.gaps] == ["convolution 0"]


def test_every_budget_is_kept_or_refused_with_how_low_it_can_go(trace: Trace) -> None:
    for share in (0.9, 0.7, 0.6, 0.596):
        budget = int(share * trace.peak_bytes)
        assert apply(trace, superneurons.plan(trace, budget, DEVICE), DEVICE).peak_bytes <= budget
    with pytest.raises(
        CannotFitError, match="superneurons cannot meet 700 MiB: it reaches 886 MiB, and no plan can go below"
    ):
        superneurons.plan(trace, 700 << 20, DEVICE)


def test_memory_centric_recomputation_is_for_budgets_that_nothing_else_meets() -> None:
    names = [f"aten::{name}" for name in ("convolution", "relu", "convolution", "relu", "relu")]
    trace = chain_step([8, 6, 10, 4, 2], names=names)  # cost-aware recomputation reaches 18 bytes
    for budget in (18, 17):
        assert apply(trace, superneurons.plan(trace, budget, device()), device()).peak_bytes == budget
    with pytest.raises(CannotFitError, match="superneurons cannot meet 16 B: it reaches 17 B"):
        superneurons.plan(trace, 16, device())


def test_results_of_joins_stay_on_the_device_unless_they_are_offloaded_too() -> None:
    """Two blocks with a join each: the paper's rule neither offloads the results of joins nor recomputes them."""
    network = resnet((2, 1, 1, 1), 16)
    joins = [position for position, layer in enumerate(network.layers) if layer.kind is LayerKind.JOIN]
    live = live_trace(network, UNTIMED)
    last = len(network.layers)  # the first op of the backward pass: everything saved is held, or away

    def held_joins(kinds: frozenset[LayerKind]) -> list[int]:
        pool = Pool.of(live, kinds)
        gaps = pool.gaps(len(pool.offloadable), Recomputation.COST_AWARE)
        away = {gap.tensor for gap in gaps if gap.after < last < gap.before}
        return [join for join in joins if join not in away]

    assert held_joins(superneurons.OFFLOADED) == joins
    assert held_joins(superneurons.OFFLOADED | {LayerKind.JOIN}) == []
