"""The leases expected of a job after an iteration that needed more than any before it."""

from __future__ import annotations

import numpy as np

from neaptide.core.traces.leases import Leases
from neaptide.live.job.growth import Growth


def test_expected_leases_grow_with_the_largest_iteration_and_never_shrink() -> None:
    growth = Growth(Leases(10, np.array([60, 110, 30, 5])), None, peak_bytes=110)
    assert not growth.grows_to(112)
    assert growth.grows_to(210)
    assert growth.levels == [210, 210, 50, 5]
    assert not growth.grows_to(110)
    assert growth.grows_to(410)
    assert growth.levels == [410, 410, 90, 5]
    assert growth.peak_bytes == 410
