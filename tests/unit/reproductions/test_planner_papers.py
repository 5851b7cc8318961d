"""The planners' papers on steps that are small enough to know the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neaptide.planning.planners import capuchin as capuchin_planner
from neaptide.reproductions.papers import capuchin, checkmate, echo, gist
from steps import chain_step, device

pytestmark = pytest.mark.networks


def test_checkmate_solves_a_chain_optimally_and_by_rounding() -> None:
    generous, tight = checkmate.solve_chains([6], [1.0, 0.75])
    assert (generous.optimal, generous.rounded, generous.ratio) == (1.0, 1.0, 1.0)
    assert tight.name == "chain of 13"
    assert tight.proven
    assert tight.optimal is not None
    assert tight.optimal > 1
    assert tight.ratio is not None
    assert 1 <= tight.ratio <= checkmate.PUBLISHED_ROUNDING_RATIO


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 16, 100])
def test_the_largest_batch_is_found_to_a_sixteenth(limit: int) -> None:
    batch, seconds = capuchin.largest_batch(lambda batch: float(batch) if batch <= limit else None, 1000)
    assert limit - max(batch // 16, 1) < batch <= limit
    assert seconds == batch


def test_the_largest_batch_is_zero_if_no_batch_fits() -> None:
    assert capuchin.largest_batch(lambda _: None, 8) == (0, 0.0)


def test_times_and_activations_of_a_scaled_trace_grow_with_the_batch() -> None:
    trace = chain_step([10] * 4)
    twice = capuchin.scaled(trace, 2)
    assert twice.batch == 2
    assert twice.seconds == 2 * trace.seconds
    assert twice.peak_bytes == 2 * trace.peak_bytes


def test_capuchin_trains_larger_batches_than_no_planner() -> None:
    trace = chain_step([1000] * 8)
    small = replace(device(link_bandwidth=1000.0), memory_bytes=100_000)
    plain, planned = capuchin.largest_batches(
        "chain", lambda batch: capuchin.scaled(trace, batch), {"capuchin": capuchin_planner.plan}, small
    )
    assert plain.batch_ratio == plain.slowdown == 1.0
    assert planned.batch_ratio > 1.5
    assert planned.slowdown >= 1


def test_gist_encodes_each_network_losslessly_and_with_reduced_precision() -> None:
    trace = chain_step(
        [320] * 4,
        names=["aten::convolution", "aten::relu_", "aten::max_pool2d_with_indices", "aten::linear"],
        backward_names=["aten::mm", "aten::threshold_backward", "aten::mm", "aten::mm"],
    )
    lossless, lossy = gist.encode_networks({"net": trace}, device())
    assert lossless.tensors == {"bit": 1}
    assert lossless.saved_ratio == pytest.approx(4 / (3 + 1 / 32), rel=0.01)
    assert lossy.tensors == {"bit": 1, "half": 2}
    assert lossy.ephemeral_ratio >= lossless.ephemeral_ratio > 1
    assert lossless.slowdown >= 1


def test_echo_lowers_the_footprint_by_the_cheap_results_alone() -> None:
    # Of four results of 320 bytes the relu's is cheap: without it, 3 of 4 are held at the loss.
    trace = chain_step(
        [320] * 4,
        names=["aten::convolution", "aten::relu", "aten::convolution", "aten::linear"],
        backward_names=["aten::mm", "aten::mm", "aten::mm", "aten::mm"],
    )
    [found] = echo.footprints({"net": trace}, device())
    assert found.reruns == 1
    assert found.plain_bytes - found.echo_bytes == 320
    assert found.slowdown > 1
