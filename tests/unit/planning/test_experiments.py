"""What the papers measured, on steps small enough to know the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from neaptide.planning.planners import capuchin as capuchin_planner
from neaptide.reproductions.experiments import capuchin, checkmate, gist
from steps import chain_step, device


def test_checkmates_rows_show_both_answers_and_what_rounding_loses() -> None:
    generous, tight = checkmate.chain_rows([6], [1.0, 0.75])
    assert (generous.optimal, generous.rounded, generous.ratio) == (1.0, 1.0, 1.0)
    assert tight.nodes == 13
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


def test_no_batch_at_all_is_zero() -> None:
    assert capuchin.largest_batch(lambda _: None, 8) == (0, 0.0)


def test_a_scaled_trace_grows_in_what_is_per_sample() -> None:
    trace = chain_step([10] * 4)
    twice = capuchin.scaled(trace, 2)
    assert twice.batch == 2
    assert twice.seconds == 2 * trace.seconds
    assert twice.peak_bytes == 2 * trace.peak_bytes


def test_capuchin_trains_larger_batches_than_none() -> None:
    trace = chain_step([1000] * 8)
    small = replace(device(link_bandwidth=1000.0), memory_bytes=100_000)
    plain, planned = capuchin.rows(
        "chain", lambda batch: capuchin.scaled(trace, batch), {"capuchin": capuchin_planner.plan}, small
    )
    assert plain.batch_ratio == plain.slowdown == 1.0
    assert planned.batch_ratio > 1.5
    assert planned.slowdown >= 1


def test_gists_rows_say_how_much_smaller_it_gets() -> None:
    trace = chain_step(
        [320] * 4,
        names=["aten::convolution", "aten::relu_", "aten::max_pool2d_with_indices", "aten::linear"],
        backward_names=["aten::mm", "aten::threshold_backward", "aten::mm", "aten::mm"],
    )
    lossless, lossy = gist.rows({"net": trace}, device())
    assert lossless.tensors == {"bit": 1}
    assert lossless.saved_ratio == pytest.approx(4 / (3 + 1 / 32), rel=0.01)
    assert lossy.tensors == {"bit": 1, "half": 2}
    assert lossy.ephemeral_ratio >= lossless.ephemeral_ratio > 1
    assert lossless.slowdown >= 1
