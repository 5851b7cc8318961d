"""How large an iteration is, and what is foreseen after one that needed more."""

from __future__ import annotations

import numpy as np
import pytest

from neaptide.core.traces.leases import Leases
from neaptide.live.job.sizes import Growth, Sizes


def test_an_iteration_is_as_large_as_it_allocates_against_the_last_that_were_measured() -> None:
    sizes = Sizes()
    for allocated_bytes in (9000, 100, 90, 100, 700):  # the first also built the model
        sizes.measured(allocated_bytes)
    assert sizes.of(100) == 1.0
    assert sizes.of(250) == 2.5
    assert sizes.of(50) == 0.5


@pytest.mark.parametrize("measured", [[], [0, 0]])
def test_where_nothing_is_allocated_all_are_alike(measured: list[int]) -> None:
    sizes = Sizes()
    for allocated_bytes in measured:
        sizes.measured(allocated_bytes)
    assert sizes.of(100) == 1.0
    sizes.measured(10**6)
    assert sizes.of(0) == 1.0


def test_what_is_foreseen_grows_with_the_largest_iteration_and_never_shrinks() -> None:
    growth = Growth(Leases(10, np.array([60, 110, 30, 5])), None, peak_bytes=110)
    assert not growth.grows_to(112)
    assert growth.grows_to(210)
    assert growth.levels == [210, 210, 50, 5]
    assert not growth.grows_to(110)
    assert growth.grows_to(410)
    assert growth.levels == [410, 410, 90, 5]
    assert growth.peak_bytes == 410
