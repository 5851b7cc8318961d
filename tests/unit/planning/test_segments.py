"""Segments of the forward pass, cut where few bytes cross."""

from __future__ import annotations

import pytest

from neaptide.planning.analysis.idle_spans import idle_spans
from neaptide.planning.analysis.segments import crossing_bytes, segments
from steps import chain_step


@pytest.mark.parametrize(
    ("sizes", "count", "between"),
    [
        ([10, 10, 10, 1, 10, 10, 10, 10], 2, [3]),
        ([10, 10, 10, 10, 10, 1, 10, 10], 2, [5]),
        ([10, 10, 1, 10, 10, 10, 1, 10, 10, 10], 3, [2, 6]),
        ([10] * 8, 1, []),
    ],
)
def test_cuts_lie_at_the_narrow_places_near_equal_shares(sizes: list[int], count: int, between: list[int]) -> None:
    trace = chain_step(sizes)
    spans = idle_spans(trace)
    found = segments(trace, spans, count)
    assert found is not None
    inside, borders = found
    assert sorted(spans.tensor[borders].tolist()) == between
    assert not set(spans.tensor[inside].tolist()) & set(between)


@pytest.mark.parametrize(("layers", "fits"), [(4, True), (3, False)])
def test_a_segment_has_two_ops_at_least(layers: int, fits: bool) -> None:
    trace = chain_step([10] * layers)
    assert (segments(trace, idle_spans(trace), 2) is not None) is fits


def test_what_crosses_an_op_is_made_up_to_it_and_used_later_in_the_forward_pass() -> None:
    assert crossing_bytes(chain_step([5, 6, 7]))[:3].tolist() == [5, 6, 0]
