"""Sizes of iterations."""

from __future__ import annotations

import pytest

from neaptide.live.job.sizes import Sizes


def test_the_size_of_an_iteration_is_its_allocation_relative_to_the_last_measured_ones() -> None:
    sizes = Sizes()
    for allocated_bytes in (9000, 100, 90, 100, 700):  # the first also built the model
        sizes.add(allocated_bytes)
    sizes.settle()
    assert sizes.of(100) == 1.0
    assert sizes.of(250) == 2.5
    assert sizes.of(50) == 0.5


@pytest.mark.parametrize("measured", [[], [0, 0]])
def test_iterations_that_allocate_nothing_have_size_1(measured: list[int]) -> None:
    sizes = Sizes()
    for allocated_bytes in measured:
        sizes.add(allocated_bytes)
    sizes.settle()
    assert sizes.of(100) == 1.0
    sizes.add(10**6)
    sizes.settle()
    assert sizes.of(0) == 1.0
