"""A job's tide: shifting, adding, bounding and fitting memory curves."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from neaptide.core.traces import curve as curve_module
from neaptide.core.traces.curve import MemoryCurve, total, total_remaining

TIDE = MemoryCurve.of_steps([10, 10, 10], [2, 6, 3])
BLOCK = MemoryCurve([0, 10], [5])


@pytest.mark.parametrize(
    ("edges", "levels", "message"),
    [
        ([0], [], "one more edge than levels, and at least one level"),
        ([], [], "one more edge than levels, and at least one level"),
        ([0, 1], [], "one more edge than levels"),
        ([0, 1], [1, 2], "one more edge than levels"),
        ([0, 1, 2], [1], "one more edge than levels"),
        (0, 0, "one more edge than levels"),
        ([[0, 1]], [[1]], "one more edge than levels"),
        ([0, 1, 2, 3, 4], [[1, 2], [3, 4]], "one more edge than levels"),
        ([0, 0], [1], "edges must increase"),
        ([0, 2, 1], [1, 1], "edges must increase"),
        ([0, 1], [-1], "levels must not be negative"),
    ],
)
def test_arrays_that_make_no_curve_are_refused(edges: object, levels: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryCurve(edges, levels)  # type: ignore[arg-type]


def test_a_curve_keeps_its_own_copy_which_is_read_only() -> None:
    edges, levels = np.array([0, 5]), np.array([7])
    curve = MemoryCurve(edges, levels)
    edges[0], levels[0] = 3, 9
    assert (curve.start_ns, curve.peak) == (0, 7)
    for made in (
        curve,
        curve.shift(1),
        curve.lower(1),
        total_remaining([curve], [2]),
        curve.merged(),
        curve.coarsen(1),
        total([curve]),
    ):
        assert made is not None
        for array in (made.edges_ns, made.bytes):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_a_step_holds_from_its_edge_until_just_before_the_next() -> None:
    assert TIDE.at([-1, 0, 9, 10, 19, 20, 29, 30, 31]).tolist() == [0, 2, 2, 6, 6, 3, 3, 0, 0]


def test_a_curve_knows_its_span_peak_and_area() -> None:
    late = TIDE.shift(5)
    assert (late.start_ns, late.end_ns, late.duration_ns) == (5, 35, 30)
    assert (late.peak, late.area, len(late)) == (6, 110, 3)


def test_an_area_beyond_64_bits_is_exact() -> None:
    assert MemoryCurve.of_steps([1 << 40], [1 << 40]).area == 1 << 80


def test_a_step_of_no_time_is_given_a_nanosecond() -> None:
    assert MemoryCurve.of_steps([0, 3, 0], [1, 2, 9]) == MemoryCurve([0, 1, 4, 5], [1, 2, 9])


def test_curves_with_the_same_steps_are_equal_and_hash_alike() -> None:
    assert MemoryCurve([0, 10, 20, 30], [2, 6, 3]) == TIDE
    assert hash(TIDE) == hash(copy.deepcopy(TIDE))
    assert TIDE.shift(1) != TIDE
    assert TIDE.lower(1) != TIDE
    assert TIDE != "a curve"


def test_a_curve_is_described_in_one_line() -> None:
    assert repr(TIDE) == "MemoryCurve(3 steps, 30 ns, peak 6 bytes)"


def test_a_curve_shifted_there_and_back_is_the_same() -> None:
    assert TIDE.shift(7).edges_ns.tolist() == [7, 17, 27, 37]
    assert TIDE.shift(-7).shift(7) == TIDE


def test_lowering_stops_at_zero() -> None:
    assert TIDE.lower(3).bytes.tolist() == [0, 3, 0]


@pytest.mark.parametrize(
    ("time_ns", "left"),
    [
        (-5, TIDE.shift(5)),
        (0, TIDE),
        (4, MemoryCurve([0, 6, 16, 26], [2, 6, 3])),
        (10, MemoryCurve([0, 10, 20], [6, 3])),
        (29, MemoryCurve([0, 1], [3])),
        (30, None),
        (99, None),
    ],
)
def test_the_remaining_curve_starts_at_the_given_time(time_ns: int, left: MemoryCurve | None) -> None:
    assert total_remaining([TIDE], [time_ns]) == left


def test_the_remaining_parts_of_several_curves_are_summed() -> None:
    both = total_remaining([TIDE, TIDE, TIDE], [4, 12, 99])
    assert both == total([MemoryCurve([0, 6, 16, 26], [2, 6, 3]), MemoryCurve([0, 8, 18], [6, 3])])


def test_merging_joins_equal_neighbours_only() -> None:
    assert MemoryCurve([0, 1, 2, 3, 4], [5, 5, 0, 5]).merged() == MemoryCurve([0, 2, 3, 4], [5, 0, 5])


def test_the_total_is_zero_between_curves_that_do_not_touch() -> None:
    pair = [MemoryCurve([0, 2], [5]), MemoryCurve([4, 6], [7])]
    assert total(pair) == MemoryCurve([0, 2, 4, 6], [5, 0, 7])


def test_the_total_adds_curves() -> None:
    pair = [MemoryCurve([0, 4], [5]), MemoryCurve([2, 6], [7])]
    assert total(pair) == MemoryCurve([0, 2, 4, 6], [5, 12, 7])


def test_a_curve_grows_by_one_factor_to_its_new_peak() -> None:
    curve = MemoryCurve.of_steps([1, 1, 1], [3, 10, 0])
    assert curve.grown_to(25) == MemoryCurve.of_steps([1, 1, 1], [8, 25, 0])
    assert curve.grown_to(10**15).peak == 10**15
    assert MemoryCurve.of_steps([2], [0]).grown_to(7) == MemoryCurve.of_steps([2], [7])


def test_coarsening_joins_where_it_adds_the_least_area() -> None:
    curve = MemoryCurve([0, 10, 11, 20, 30], [5, 6, 1, 9])
    assert curve.coarsen(3) == MemoryCurve([0, 11, 20, 30], [6, 1, 9])


def test_coarsening_joins_no_more_than_it_must() -> None:
    bumps = MemoryCurve(np.arange(9), [1, 2, 19, 18, 5, 6, 29, 28])  # four joins are equally cheap
    for steps in range(1, 9):
        assert len(bumps.coarsen(steps)) == steps


def test_joins_that_cost_the_same_do_not_overlap() -> None:
    even = MemoryCurve(np.arange(9), np.arange(8))
    for steps in range(1, 9):
        assert (even.coarsen(steps).at(even.edges_ns[:-1]) >= even.bytes).all()


def test_coarsening_a_staircase_converges() -> None:
    staircase = MemoryCurve(np.arange(301), np.arange(300) ** 2)  # every join is dearer than the one before it
    for steps in (1, 2, 7, 299):
        assert len(staircase.coarsen(steps)) <= steps


@pytest.mark.parametrize("steps", [0, -1])
def test_a_curve_cannot_be_coarsened_to_nothing(steps: int) -> None:
    with pytest.raises(ValueError, match=f"at least one step, not {steps}"):
        TIDE.coarsen(steps)


class TestEarliestFit:
    """The smallest delay that keeps the sum within the budget (Zico's question)."""

    def test_a_curve_without_a_base_does_not_wait(self) -> None:
        assert TIDE.earliest_fit(None, 6) == 0
        assert TIDE.earliest_fit(None, 6, not_before_ns=17) == 17

    def test_the_second_tide_waits_until_the_first_ebbs(self) -> None:
        assert TIDE.earliest_fit(TIDE, 12) == 0
        assert TIDE.earliest_fit(TIDE, 9) == 10  # peak over the first's ebb
        assert TIDE.earliest_fit(TIDE, 8) == 20  # foot over the ebb
        assert TIDE.earliest_fit(TIDE, 6) == 20

    def test_steps_that_only_touch_do_not_add_up(self) -> None:
        assert BLOCK.earliest_fit(BLOCK, 5) == 10

    def test_a_later_start_that_already_fits_is_taken_as_it_is(self) -> None:
        assert TIDE.earliest_fit(TIDE, 9, not_before_ns=13) == 13

    def test_a_curve_may_go_before_a_base_that_begins_later(self) -> None:
        assert BLOCK.earliest_fit(BLOCK.shift(10), 5) == 0
        assert BLOCK.earliest_fit(BLOCK.shift(9), 5) == 19

    def test_the_offset_of_the_curve_itself_counts(self) -> None:
        assert BLOCK.shift(4).earliest_fit(BLOCK, 5) == 6
        assert BLOCK.shift(-4).earliest_fit(BLOCK, 5) == 14

    def test_a_negative_delay_is_found_where_it_is_allowed(self) -> None:
        assert BLOCK.earliest_fit(BLOCK.shift(4), 5, not_before_ns=-8) == -8
        assert BLOCK.earliest_fit(BLOCK.shift(4), 5, not_before_ns=-6) == -6
        assert BLOCK.earliest_fit(BLOCK.shift(4), 5, not_before_ns=-5) == 14

    def test_none_means_that_the_curve_alone_exceeds_the_budget(self) -> None:
        assert TIDE.earliest_fit(None, 5) is None
        assert TIDE.earliest_fit(TIDE, 5) is None
        assert TIDE.earliest_fit(TIDE, 6) is not None

    def test_even_an_empty_step_avoids_a_base_above_the_budget(self) -> None:
        assert MemoryCurve([0, 5, 6], [0, 3]).earliest_fit(BLOCK, 4) == 10

    def test_a_gap_between_two_bumps_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = count_slow_paths(monkeypatch)
        two_bumps = MemoryCurve([0, 2, 8, 10], [5, 0, 6])
        base = MemoryCurve([0, 5], [4])
        assert two_bumps.earliest_fit(base, 7, not_before_ns=-9) == -3  # the base lies between the bumps
        assert two_bumps.earliest_fit(base, 7, not_before_ns=-1) == 5  # only the lower bump is in the way
        assert calls

    def test_one_tide_on_another_needs_only_the_quick_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = count_slow_paths(monkeypatch)
        assert TIDE.earliest_fit(TIDE, 9) == 10
        assert not calls


def count_slow_paths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record each search through all of a curve's bumps from now on."""
    calls: list[int] = []
    original = curve_module._runs_above

    def counted(values: np.ndarray, thresholds: np.ndarray) -> object:
        calls.append(thresholds.size)
        return original(values, thresholds)

    monkeypatch.setattr(curve_module, "_runs_above", counted)
    return calls
