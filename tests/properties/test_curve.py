"""Curves against brute force: every nanosecond of a small grid is checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neaptide.core.traces import curve as curve_module
from neaptide.core.traces.curve import MemoryCurve, total, total_remaining
from properties.strategies import curves

GRID = range(-60, 110)


def level(curve: MemoryCurve | None, time_ns: int) -> int:
    """The level at one time, by looking at one step after the other."""
    if curve is not None:
        edges = curve.edges_ns.tolist()
        for begin, end, amount in zip(edges, edges[1:], curve.bytes.tolist(), strict=False):
            if begin <= time_ns < end:
                return int(amount)
    return 0


def points(curve: MemoryCurve | None) -> list[int]:
    return [level(curve, time_ns) for time_ns in GRID]


def assert_well_formed(curve: MemoryCurve) -> None:
    """Check a curve as its constructor does: curves that the module itself makes skip those checks."""
    assert MemoryCurve(curve.edges_ns, curve.bytes) == curve
    assert curve.edges_ns.dtype == curve.bytes.dtype == np.int64


@given(curves())
def test_at_gives_the_level_of_every_time(curve: MemoryCurve) -> None:
    assert curve.at(GRID).tolist() == points(curve)
    assert [int(curve.at(time_ns)) for time_ns in GRID] == points(curve)


@given(curves())
def test_the_area_and_the_peak_are_those_of_the_points(curve: MemoryCurve) -> None:
    assert curve.area == sum(points(curve))
    assert curve.peak == max(points(curve))


@given(curves(), st.integers(-40, 40))
def test_a_shifted_curve_has_the_same_levels_later(curve: MemoryCurve, delay_ns: int) -> None:
    shifted = curve.shift(delay_ns)
    assert_well_formed(shifted)
    assert points(shifted) == [level(curve, time_ns - delay_ns) for time_ns in GRID]


@given(curves(), st.integers(0, 12))
def test_a_lowered_curve_is_lower_by_the_amount_down_to_zero(curve: MemoryCurve, amount: int) -> None:
    lowered = curve.lower(amount)
    assert_well_formed(lowered)
    assert points(lowered) == [max(0, point - amount) for point in points(curve)]
    assert (lowered.start_ns, lowered.end_ns) == (curve.start_ns, curve.end_ns)


@given(curves(), st.integers(-20, 55))
def test_the_remaining_curve_is_the_rest_with_the_given_time_as_zero(curve: MemoryCurve, now_ns: int) -> None:
    left = total_remaining([curve], [now_ns])
    assert points(left) == [level(curve, time_ns + now_ns) if time_ns >= 0 else 0 for time_ns in GRID]
    assert (left is None) == (now_ns >= curve.end_ns)
    if left is not None:
        assert_well_formed(left)
        assert (left.start_ns, left.end_ns) == (max(0, curve.start_ns - now_ns), curve.end_ns - now_ns)


@given(curves(), st.integers(-20, 55))
def test_the_step_at_a_time_and_the_remaining_peak_are_found(curve: MemoryCurve, time_ns: int) -> None:
    step = curve.step_at(time_ns)
    assert step == sum(edge <= time_ns for edge in curve.edges_ns.tolist()) - 1
    assert curve.remaining_peak(time_ns) == max((level(curve, later) for later in GRID if later >= time_ns), default=0)


@given(curves(max_level=2))
def test_a_merged_curve_is_the_same_function_in_the_fewest_steps(curve: MemoryCurve) -> None:
    merged = curve.merged()
    assert_well_formed(merged)
    assert points(merged) == points(curve)
    assert (merged.start_ns, merged.end_ns) == (curve.start_ns, curve.end_ns)
    assert (merged.bytes[1:] != merged.bytes[:-1]).all()


@given(st.lists(curves(), min_size=1, max_size=4))
def test_the_total_is_the_sum_at_every_time(some: list[MemoryCurve]) -> None:
    summed = total(some)
    assert_well_formed(summed)
    assert points(summed) == [sum(levels) for levels in zip(*map(points, some), strict=True)]
    assert summed.start_ns == min(curve.start_ns for curve in some)
    assert summed.end_ns == max(curve.end_ns for curve in some)


@given(curves(max_steps=14) | curves(max_steps=14, max_level=3), st.integers(1, 15))
def test_a_coarse_curve_bounds_the_curve_in_few_enough_steps(curve: MemoryCurve, steps: int) -> None:
    coarse = curve.coarsen(steps)
    assert_well_formed(coarse)
    assert len(coarse) <= steps
    assert all(upper >= exact for upper, exact in zip(points(coarse), points(curve), strict=True))
    assert coarse.peak == curve.peak
    assert (coarse.start_ns, coarse.end_ns) == (curve.start_ns, curve.end_ns)


@given(curves(max_steps=14), st.integers(1, 15))
def test_coarsening_a_curve_with_few_enough_steps_changes_nothing(curve: MemoryCurve, steps: int) -> None:
    coarse = curve.coarsen(steps)
    assert coarse.coarsen(steps) == coarse
    assert curve.coarsen(len(curve.merged())) == curve.merged()


@given(curves(max_steps=14, unit_ns=10**11, max_level=1 << 40), st.integers(1, 15))
def test_coarsening_holds_for_amounts_beyond_the_precision_of_floats(curve: MemoryCurve, steps: int) -> None:
    coarse = curve.coarsen(steps)
    assert len(coarse) <= steps
    assert (coarse.at(curve.edges_ns[:-1]) >= curve.bytes).all()
    assert coarse.peak == curve.peak


def fits(curve: MemoryCurve, base: MemoryCurve, budget: int, delay_ns: int) -> bool:
    """Whether no step of the base meets a step of the delayed curve with which it exceeds the budget."""
    mine, others = curve.edges_ns.tolist(), base.edges_ns.tolist()
    return not any(
        amount + taken > budget
        for begin, end, amount in zip(mine, mine[1:], curve.bytes.tolist(), strict=False)
        for other_begin, other_end, taken in zip(others, others[1:], base.bytes.tolist(), strict=False)
        if begin + delay_ns < other_end and other_begin < end + delay_ns
    )


def earliest_of_all(curve: MemoryCurve, base: MemoryCurve, budget: int, not_before_ns: int) -> int | None:
    """The first delay that fits, by trying each one until the base has passed."""
    passed = max(not_before_ns, base.end_ns - curve.start_ns)
    tried = (delay for delay in range(not_before_ns, passed + 1) if fits(curve, base, budget, delay))
    return next(tried) if curve.peak <= budget else None


@given(curves(), curves(), st.integers(0, 20), st.integers(-30, 30))
def test_the_earliest_fit_is_the_first_of_all_delays_that_fit(
    curve: MemoryCurve, base: MemoryCurve, budget: int, not_before_ns: int
) -> None:
    assert curve.earliest_fit(base, budget, not_before_ns) == earliest_of_all(curve, base, budget, not_before_ns)


@given(curves(), curves(), st.integers(9, 20), st.integers(-30, 30))
def test_the_sum_at_the_earliest_fit_is_within_the_budget(
    curve: MemoryCurve, base: MemoryCurve, budget: int, not_before_ns: int
) -> None:
    delay_ns = curve.earliest_fit(base, budget, not_before_ns)
    assert delay_ns is not None
    assert delay_ns >= not_before_ns
    assert total([base, curve.shift(delay_ns)]).peak <= budget


@given(curves(), st.none() | curves(), st.integers(0, 20), st.integers(-30, 30))
def test_there_is_no_fit_exactly_when_the_peak_alone_is_too_high(
    curve: MemoryCurve, base: MemoryCurve | None, budget: int, not_before_ns: int
) -> None:
    delay_ns = curve.earliest_fit(base, budget, not_before_ns)
    assert (delay_ns is None) == (curve.peak > budget)
    assert base is not None or delay_ns in (None, not_before_ns)


_SECOND, _GIB = 10**9, 1 << 30


@given(
    curves(unit_ns=_SECOND - 1, max_level=40 * _GIB),
    curves(unit_ns=_SECOND + 1, max_level=40 * _GIB),
    st.integers(0, 80 * _GIB),
    st.integers(-30 * _SECOND, 30 * _SECOND),
)
def test_the_earliest_fit_of_real_sizes_is_a_candidate_and_none_before_it_fits(
    curve: MemoryCurve, base: MemoryCurve, budget: int, not_before_ns: int
) -> None:
    ends = (base.edges_ns[1:, None] - curve.edges_ns[:-1]).ravel().tolist()
    candidates = sorted({not_before_ns, *(end for end in ends if end > not_before_ns)})
    expected = next((delay for delay in candidates if fits(curve, base, budget, delay)), None)
    if curve.peak > budget:
        expected = None
    assert curve.earliest_fit(base, budget, not_before_ns) == expected


def test_both_the_quick_and_the_slow_path_agree_with_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    original, slow, mattered, cases = curve_module._runs_above, [0], 0, 1500

    def counted(values: np.ndarray, thresholds: np.ndarray) -> object:
        slow[0] += 1
        return original(values, thresholds)

    def blind(*_: object) -> object:
        return (np.empty(0, dtype=np.int64),) * 3

    random = np.random.default_rng(7)
    for _ in range(cases):
        curve, base = (
            MemoryCurve(random.integers(-9, 9) + np.cumsum([0, *lengths]), random.integers(0, 10, lengths.size))
            for lengths in (random.integers(1, 5, random.integers(3, 9)) for _ in range(2))
        )
        budget, not_before_ns = int(random.integers(curve.peak, 19)), int(random.integers(-25, 10))
        monkeypatch.setattr(curve_module, "_runs_above", counted)
        found = curve.earliest_fit(base, budget, not_before_ns)
        assert found == earliest_of_all(curve, base, budget, not_before_ns)
        monkeypatch.setattr(curve_module, "_runs_above", blind)
        mattered += found != curve.earliest_fit(base, budget, not_before_ns)
    assert slow[0] >= 300
    assert cases - slow[0] >= 300
    assert mattered >= 30  # cases that the quick path alone would have got wrong
