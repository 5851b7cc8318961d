"""Axes have round numbers in readable units."""

from __future__ import annotations

import pytest

from neaptide.core.units import GIB, MIB
from neaptide.reporting.figures.axes import byte_axis, byte_rows, time_axis


@pytest.mark.parametrize(
    ("limit", "steps", "labels"),
    [
        (5.4 * GIB, 6, ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB", "5 GiB"]),
        (24.6 * GIB, 6, ["0", "5 GiB", "10 GiB", "15 GiB", "20 GiB"]),
        (1.2 * MIB, 6, ["0", "0.2 MiB", "0.4 MiB", "0.6 MiB", "0.8 MiB", "1 MiB", "1.2 MiB"]),
        (3, 6, ["0", "1 B", "2 B", "3 B"]),
        (0, 6, ["0"]),
    ],
)
def test_byte_axes_have_round_labels(limit: float, steps: int, labels: list[str]) -> None:
    axis = byte_axis(limit, steps)
    assert [axis.label(tick) for tick in axis.ticks(limit)] == labels


@pytest.mark.parametrize(
    ("limit", "labels"),
    [(0.18, ["0", "50 ms", "100 ms", "150 ms"]), (3e-6, ["0", "1 us", "2 us", "3 us"]), (1e-9, ["0", "0.25 ns"])],
)
def test_time_axes_have_round_labels(limit: float, labels: list[str]) -> None:
    axis = time_axis(limit, 4)
    assert [axis.label(tick) for tick in axis.ticks(limit)][: len(labels)] == labels


@pytest.mark.parametrize("peak", [1, 7, 1000, 297 << 10, 5 * GIB + 1, 10**13])
def test_most_rows_of_a_drawing_are_used(peak: int) -> None:
    rows = -(-peak // byte_rows(peak, 12).step)
    assert rows <= 12
    assert rows >= min(peak, 7)
