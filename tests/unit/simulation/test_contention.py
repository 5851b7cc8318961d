"""Ops side by side."""

from __future__ import annotations

import ctypes
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import Op, make_trace
from neaptide.core.control.events import IterationEnded
from neaptide.core.control.job import Job
from neaptide.core.device import find_device
from neaptide.simulation import Contention, Submission, library, simulate
from neaptide.simulation.contention import OpDemand, demands_of, rates
from neaptide.simulation.engine import native_contention
from simple_policies import Everything

DEVICE = find_device("V100-16GB")
_share = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))
_seconds = st.one_of(st.just(float("inf")), st.floats(1e-9, 1))
_demands = st.lists(st.builds(OpDemand, _share, _share, _share, _share, _seconds), min_size=1, max_size=8)
_classes = st.lists(
    st.builds(OpDemand, _share, _share, _share, _share, _seconds, deadline=st.booleans()), min_size=1, max_size=8
)
_contentions = st.builds(
    Contention,
    compute=st.floats(0.1, 3),
    bandwidth=st.floats(0.1, 3),
    fill=st.floats(0.1, 3),
    link=st.floats(0.1, 3),
    wave_seconds=st.sampled_from([0.0, 1e-6, 100e-6, 10.0]),
)


def native(demands: list[OpDemand], contention: Contention) -> list[float]:
    values = [value for each in demands for value in astuple(each)]
    given_demands, found = (ctypes.c_double * len(values))(*values), (ctypes.c_double * len(demands))()
    costs = native_contention(contention)
    library.load().neaptide_rates(given_demands, len(demands), ctypes.byref(costs), found)
    return list(found)


@given(_classes, _contentions)
def test_the_native_rates_are_those_of_the_reference_to_the_bit(
    demands: list[OpDemand], contention: Contention
) -> None:
    assert native(demands, contention) == rates(demands, contention)


def test_ops_of_deadline_jobs_run_as_if_alone_and_others_share_what_is_left() -> None:
    server, training = OpDemand(fill=0.75, deadline=True), OpDemand(fill=1.0)
    assert rates([training, server], Contention(wave_seconds=0)) == [0.25, 1.0]
    assert rates([training, OpDemand(fill=1.0, deadline=True)], Contention(wave_seconds=0)) == [0.0, 1.0]


@given(_demands, _contentions)
def test_no_resource_is_given_out_twice_and_every_op_makes_progress(
    demands: list[OpDemand], contention: Contention
) -> None:
    found = rates(demands, contention)
    assert all(0 < rate <= 1 for rate in found)
    if len(demands) == 1:
        return
    for name in ("compute", "bandwidth", "fill", "link"):
        used = sum(rate * getattr(demand, name) for rate, demand in zip(found, demands, strict=True))
        assert used <= getattr(contention, name) * (1 + 1e-9)


@given(_demands)
def test_a_slowed_op_is_the_fastest_user_of_some_full_resource(
    demands: list[OpDemand],
) -> None:
    """Max-min fairness: a rate could only rise at the expense of one that is not larger."""
    found = rates(demands, Contention(wave_seconds=0))
    names = ("compute", "bandwidth", "fill", "link")
    full = [
        name
        for name in names
        if sum(rate * getattr(demand, name) for rate, demand in zip(found, demands, strict=True)) >= 1 - 1e-9
    ]
    for own, demand in zip(found, demands, strict=True):
        if own < 1 - 1e-9:
            sharing = [name for name in full if getattr(demand, name) > 0]
            assert any(
                all(r <= own + 1e-9 for r, d in zip(found, demands, strict=True) if getattr(d, name) > 0)
                for name in sharing
            )


def test_an_op_alone_runs_at_full_rate_whatever_the_capacities() -> None:
    assert rates(
        [OpDemand(1, 1, 1, seconds=1e-6)], Contention(compute=0.5, bandwidth=0.5, fill=0.5, wave_seconds=1)
    ) == [1.0]


def test_ops_that_fill_the_device_share_it_and_ops_that_do_not_run_side_by_side() -> None:
    assert rates([OpDemand(fill=1), OpDemand(fill=1)], Contention()) == [0.5, 0.5]
    assert rates([OpDemand(fill=0.5), OpDemand(fill=0.25)], Contention()) == [1, 1]
    assert rates([OpDemand(compute=0.9), OpDemand(bandwidth=0.9)], Contention()) == [1, 1]


def test_a_share_that_one_op_cannot_use_goes_to_the_other() -> None:
    both_compute_bound, light = OpDemand(compute=1), OpDemand(compute=0.2)
    assert rates([both_compute_bound, light, OpDemand(bandwidth=0.3)], Contention()) == pytest.approx(
        [1 / 1.2, 1 / 1.2, 1]
    )
    assert rates([OpDemand(1, 1), OpDemand(0, 1), OpDemand(1, 0)], Contention(compute=1.5)) == pytest.approx(
        [0.5, 0.5, 1]
    )


def test_short_ops_that_fill_the_device_take_turns() -> None:
    pair = [OpDemand(fill=1, seconds=10e-6), OpDemand(fill=1, seconds=30e-6)]
    assert rates(pair, Contention(wave_seconds=100e-6)) == pytest.approx([10 / 40, 30 / 40])
    assert rates(pair, Contention(wave_seconds=0)) == [0.5, 0.5]


def test_an_op_waits_no_longer_than_a_wave_of_its_neighbour_and_takes_little_from_it() -> None:
    short, long = rates(
        [OpDemand(fill=1, seconds=25e-6), OpDemand(fill=1, seconds=1.0)], Contention(wave_seconds=100e-6)
    )
    assert short == pytest.approx(25 / 125)
    assert long == pytest.approx(1 - short)


def test_an_op_waits_less_when_its_neighbours_fill_less_of_the_device() -> None:
    short = OpDemand(fill=0.1, seconds=10e-6)
    for fill in (0.0, 0.25, 0.5):
        found = rates([short, OpDemand(fill=fill, seconds=1.0)], Contention(wave_seconds=100e-6))
        assert found[0] == pytest.approx(10 / (10 + 100 * fill))
    crowd = [short, *[OpDemand(fill=0.1, seconds=20e-6)] * 3]
    assert rates(crowd, Contention())[0] == pytest.approx(10 / (10 + 3 * 0.1 * 20))


@given(_share, _seconds, _share, _seconds)
def test_taking_turns_wastes_no_time(fill: float, seconds: float, beside: float, as_long: float) -> None:
    """Two ops are together at least as fast as one after the other."""
    found = rates([OpDemand(fill=fill, seconds=seconds), OpDemand(fill=beside, seconds=as_long)], Contention())
    assert sum(found) >= 1 - 1e-9


def test_bad_parameters_are_named() -> None:
    with pytest.raises(ValueError, match=r"contention: fill must be positive and finite, not 0"):
        Contention(fill=0)
    with pytest.raises(ValueError, match=r"contention: wave_seconds must be finite and not negative, not -1"):
        Contention(wave_seconds=-1)


def test_demands_are_shares_of_the_device_at_the_ops_own_speed() -> None:
    ops = [
        Op(seconds=2.0, flops=DEVICE.matrix_flops, moved_bytes=int(DEVICE.bandwidth / 2), fill=0.3),
        Op(seconds=1.0, flops=9 * DEVICE.matrix_flops),
        Op(seconds=0.0, flops=1.0, moved_bytes=1),
    ]
    compute, bandwidth, fill = demands_of(make_trace(ops), DEVICE)
    assert compute.tolist() == [0.5, 1.0, 0.0]
    assert bandwidth.tolist() == [0.25, 0.0, 0.0]
    assert fill.tolist() == [0.3, 1.0, 1.0]


def test_two_full_ops_take_twice_as_long_and_the_rest_of_the_longer_one_is_quick() -> None:
    def job(name: str, seconds: float) -> Submission:
        return Submission(Job(name=name, trace=make_trace([Op(seconds=seconds)]), iterations=1))

    outcome = simulate([job("short", 1.0), job("long", 3.0)], DEVICE, 1, Everything())
    ends = {entry.job: entry.at_ns for entry in outcome.entries if isinstance(entry, IterationEnded)}
    assert ends == {"short": 2_000_000_000, "long": 4_000_000_000}
