"""The leases expected of a job after an iteration that needed more than any before it."""

from __future__ import annotations

import numpy as np

from neaptide.core.traces.leases import Leases
from neaptide.live.job.growth import Growth


def test_a_small_job_that_needs_less_than_it_leases_at_rest_grows_by_what_it_needs_more() -> None:
    growth = Growth(Leases(4096, np.array([4096, 6144])), None, peak_bytes=1024)
    assert growth.grows_to(3072)
    assert growth.leases.peak_bytes == 6144 + 2048
    assert growth.grows_to(5120)
    assert growth.leases.peak_bytes == 6144 + 4096


def test_expected_leases_grow_with_the_largest_iteration_and_never_shrink() -> None:
    growth = Growth(Leases(10, np.array([60, 110, 30, 5])), None, peak_bytes=110)
    assert not growth.grows_to(112)
    assert growth.grows_to(210)
    assert growth.levels == [210, 210, 50, 5]
    assert not growth.grows_to(110)
    assert growth.grows_to(410)
    assert growth.levels == [410, 410, 90, 5]
    assert growth.peak_bytes == 410


def told(peaks: list[int], every_ns: int) -> int:
    """How often the daemon is told of iterations with these peaks."""
    growth = Growth(Leases(10, np.array([60, 110])), None, peak_bytes=110)
    count = 0
    for index, peak_bytes in enumerate(peaks):
        growth.grows_to(peak_bytes)
        count += growth.is_to_be_told(index * every_ns)
    return count


def test_the_first_growth_and_large_ones_are_told_at_once() -> None:
    assert told([110, 200], 1) == 1
    assert told([120, 500, 5000], 1) == 3


def test_a_job_that_grows_a_little_in_every_iteration_reports_that_a_few_times() -> None:
    assert told([110 + 4 * index for index in range(100)], 50_000_000) <= 8


def test_a_small_growth_is_told_after_a_while() -> None:
    growth = Growth(Leases(10, np.array([60, 110])), None, peak_bytes=110)
    assert growth.grows_to(130)
    assert growth.is_to_be_told(0)
    assert growth.grows_to(140)
    assert not growth.is_to_be_told(1)
    assert growth.is_to_be_told(60_000_000_000)
    assert not growth.is_to_be_told(120_000_000_000)
