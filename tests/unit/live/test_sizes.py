"""Sizes of iterations, and the leases expected after one that needed more."""

from __future__ import annotations

import numpy as np
import pytest

from neaptide.core.traces.leases import Leases
from neaptide.live.job.sizes import Growth, Sizes


def test_the_size_of_an_iteration_is_its_allocation_relative_to_the_last_measured_ones() -> None:
    sizes = Sizes()
    for allocated_bytes in (9000, 100, 90, 100, 700):  # the first also built the model
        sizes.measured(allocated_bytes)
    assert sizes.of(100) == 1.0
    assert sizes.of(250) == 2.5
    assert sizes.of(50) == 0.5


@pytest.mark.parametrize("measured", [[], [0, 0]])
def test_iterations_that_allocate_nothing_have_size_1(measured: list[int]) -> None:
    sizes = Sizes()
    for allocated_bytes in measured:
        sizes.measured(allocated_bytes)
    assert sizes.of(100) == 1.0
    sizes.measured(10**6)
    assert sizes.of(0) == 1.0


def test_expected_leases_grow_with_the_largest_iteration_and_never_shrink() -> None:
    growth = Growth(Leases(10, np.array([60, 110, 30, 5])), None, peak_bytes=110)
    assert not growth.grows_to(112)
    assert growth.grows_to(210)
    assert growth.levels == [210, 210, 50, 5]
    assert not growth.grows_to(110)
    assert growth.grows_to(410)
    assert growth.levels == [410, 410, 90, 5]
    assert growth.peak_bytes == 410
