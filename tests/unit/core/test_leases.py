"""What a job leases in an iteration, and the profile that is read from its leases."""

from __future__ import annotations

import numpy as np
import pytest

from neaptide.core.traces.leases import LeaseOverhead, Leases
from neaptide.core.traces.profile import Profile
from tides import MIB, tide


def test_the_leases_to_come_are_the_highest_from_each_op_to_the_end() -> None:
    trace = tide(ops=512, persistent=10 * MIB, ephemeral=100 * MIB)
    levels = Leases.of(trace).to_come().tolist()
    assert len(levels) == 512
    assert levels[0] == trace.peak_bytes
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] < 20 * MIB
    assert all(level >= trace.held_bytes[op:].max() for op, level in enumerate(levels))


def test_leases_exceed_the_needed_bytes_most_after_the_peak_and_by_a_quarter_of_it_at_most() -> None:
    trace = tide(ops=512, ephemeral=100 * MIB)
    plain = Leases.of(trace).to_come()
    levels = Leases.of(trace, LeaseOverhead(peak_bytes=2 * MIB, most_bytes=10 * MIB)).to_come()
    assert levels[-1] == plain[-1] + 10 * MIB
    assert plain[0] + 2 * MIB <= levels[0] <= plain[0] + 10 * MIB
    far = Leases.of(trace, LeaseOverhead(peak_bytes=10 * trace.peak_bytes, most_bytes=10 * trace.peak_bytes))
    assert far.peak_bytes == trace.peak_bytes + round(trace.peak_bytes / 4)


def test_a_kernel_has_the_leases_of_the_op_that_launched_it() -> None:
    leases = Leases.of(tide(ops=8, ephemeral=100 * MIB))
    by_op = leases.to_come()
    op_of_kernel = np.array([0, 0, 0, 1, 2, 5, 3, 4, 5, 6, 7, 7])  # the sixth is assigned to a later op by mistake
    expected = [by_op[op] for op in (0, 0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 7)]
    assert leases.to_come(op_of_kernel).tolist() == expected


def test_a_profile_without_leases_counts_needed_bytes() -> None:
    trace = tide(persistent=10 * MIB, ephemeral=100 * MIB)
    assert Profile.of(trace).persistent_bytes == trace.persistent_bytes
    assert Profile.of(trace).peak_bytes == trace.peak_bytes


def test_a_profile_of_leases_counts_what_is_leased_at_rest_as_persistent() -> None:
    trace = tide(persistent=10 * MIB, ephemeral=100 * MIB)
    leases = Leases.of(trace, LeaseOverhead(peak_bytes=8 * MIB, most_bytes=8 * MIB, at_rest_bytes=4 * MIB))
    profile = Profile.of(trace, leases)
    assert profile.persistent_bytes == trace.persistent_bytes + 4 * MIB
    assert profile.peak_bytes == leases.peak_bytes == trace.peak_bytes + 8 * MIB
    assert profile.curve_ahead(2).peak == profile.ephemeral_bytes


@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_leases_and_a_profile_grow_alike(factor: float) -> None:
    trace = tide(persistent=10 * MIB, ephemeral=100 * MIB)
    leases = Leases.of(trace, LeaseOverhead(peak_bytes=8 * MIB, most_bytes=8 * MIB, at_rest_bytes=4 * MIB))
    peak_bytes = round(factor * leases.peak_bytes)
    grown = Profile.of(trace, leases).grown_to(peak_bytes)
    assert grown.peak_bytes == peak_bytes == leases.grown_to(peak_bytes).peak_bytes
    assert grown.curve == Profile.of(trace, leases.grown_to(peak_bytes)).curve
