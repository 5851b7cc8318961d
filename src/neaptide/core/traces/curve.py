"""A job's memory curve: the bytes it needs over the course of one iteration, piecewise constant.

Times are whole nanoseconds, so shifting, adding and fitting are exact, and a simulation gives the same answer on every
machine. Outside its span a curve is zero: the bytes that a job holds between iterations are counted apart, as
persistent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from neaptide.core.traces.columns import Integers


@dataclass(frozen=True, slots=True, eq=False)
class MemoryCurve:
    """`bytes[i]` are needed from `edges_ns[i]` until just before `edges_ns[i + 1]`."""

    edges_ns: Integers
    bytes: Integers
    # The edges, and the highest level from each edge on, as Python lists: bisect finds a single time faster there.
    _plain: tuple[list[int], list[int]] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        edges, levels = _whole(self.edges_ns), _whole(self.bytes)
        if levels.ndim != 1 or edges.shape != (levels.size + 1,) or levels.size == 0:
            raise ValueError("a curve needs one more edge than levels, and at least one level")
        if (edges[1:] <= edges[:-1]).any():
            raise ValueError("a curve's edges must increase")
        if (levels < 0).any():
            raise ValueError("a curve's levels must not be negative")
        self._keep(edges, levels)

    def _keep(self, edges: Integers, levels: Integers) -> None:
        edges.flags.writeable = levels.flags.writeable = False
        object.__setattr__(self, "edges_ns", edges)
        object.__setattr__(self, "bytes", levels)
        object.__setattr__(self, "_plain", None)

    @classmethod
    def _trusted(cls, edges: Integers, levels: Integers) -> MemoryCurve:
        """A curve from arrays that this module made: freezes them without checking them."""
        curve = object.__new__(cls)
        curve._keep(edges, levels)
        return curve

    @classmethod
    def of_steps(cls, durations_ns: npt.ArrayLike, levels: npt.ArrayLike) -> MemoryCurve:
        """A curve that starts at time zero, from the length and level of each step; a step lasts at least 1 ns."""
        durations = np.maximum(_whole(durations_ns), 1)
        return cls(np.concatenate(([0], np.cumsum(durations))), _whole(levels))

    def __len__(self) -> int:
        return self.bytes.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryCurve):
            return NotImplemented
        return np.array_equal(self.edges_ns, other.edges_ns) and np.array_equal(self.bytes, other.bytes)

    def __hash__(self) -> int:
        return hash((self.edges_ns.tobytes(), self.bytes.tobytes()))

    def __repr__(self) -> str:
        return f"MemoryCurve({len(self)} steps, {self.duration_ns} ns, peak {self.peak} bytes)"

    @property
    def start_ns(self) -> int:
        return int(self.edges_ns[0])

    @property
    def end_ns(self) -> int:
        return int(self.edges_ns[-1])

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def peak(self) -> int:
        return int(self.bytes.max())

    @property
    def area(self) -> int:
        """Bytes times nanoseconds under the curve."""
        return sum(level * length for level, length in zip(self.bytes.tolist(), self._lengths(), strict=True))

    def _lengths(self) -> list[int]:
        lengths: list[int] = np.diff(self.edges_ns).tolist()
        return lengths

    def at(self, times_ns: npt.ArrayLike) -> Integers:
        """The level at each time; zero outside the span."""
        times = np.asarray(times_ns, dtype=np.int64)
        around = np.concatenate(((0,), self.bytes, (0,)))
        return around[self.edges_ns.searchsorted(times, side="right")]

    def _numbers(self) -> tuple[list[int], list[int]]:
        if self._plain is None:
            highest: list[int] = np.maximum.accumulate(self.bytes[::-1])[::-1].tolist()
            object.__setattr__(self, "_plain", (self.edges_ns.tolist(), [*highest, 0]))
        assert self._plain is not None
        return self._plain

    def step_at(self, time_ns: int) -> int:
        """The index of the step at this time; -1 before the first, and the number of steps after the last."""
        return bisect_right(self._numbers()[0], time_ns) - 1

    def remaining_peak(self, time_ns: int) -> int:
        """The highest level from this time on; after the end it is zero."""
        edges, highest = self._numbers()
        return highest[max(bisect_right(edges, time_ns) - 1, 0)]

    def shift(self, delay_ns: int) -> MemoryCurve:
        """The same curve, later by `delay_ns`."""
        return MemoryCurve._trusted(self.edges_ns + np.int64(delay_ns), self.bytes)

    def lower(self, amount: int) -> MemoryCurve:
        """The same curve with `amount` bytes less everywhere, and never below zero."""
        return MemoryCurve._trusted(self.edges_ns.copy(), np.maximum(self.bytes - amount, 0))

    def merged(self) -> MemoryCurve:
        """The same function with equal neighbours joined."""
        keep = np.concatenate(([True], self.bytes[1:] != self.bytes[:-1]))
        edges = np.concatenate((self.edges_ns[:-1][keep], self.edges_ns[-1:]))
        return MemoryCurve._trusted(edges, self.bytes[keep])

    def grown_to(self, peak: int) -> MemoryCurve:
        """The curve with every level multiplied by one factor, so that `peak` is the highest."""
        return MemoryCurve._trusted(self.edges_ns, grown_levels(self.bytes, peak))

    def clipped_to(self, most: int) -> MemoryCurve:
        """The curve where it is at most this high, and this high elsewhere."""
        return MemoryCurve._trusted(self.edges_ns, np.minimum(self.bytes, most))

    def stretched_to(self, duration_ns: int) -> MemoryCurve:
        """The same levels over this long: all steps are longer, or shorter, by one factor, and at least 1 ns."""
        offsets = (self.edges_ns - self.edges_ns[0]) * (duration_ns / max(self.duration_ns, 1))
        edges = np.round(offsets).astype(np.int64)
        steps = np.arange(edges.size)
        edges = np.maximum.accumulate(edges - steps) + steps  # increasing
        return MemoryCurve._trusted(edges + self.edges_ns[0], self.bytes)

    def coarsen(self, steps: int) -> MemoryCurve:
        """At most `steps` steps, nowhere below this curve, with the same peak, and little area added.

        Neighbouring steps are joined at the higher of their levels, in rounds, cheapest first.
        """
        if steps < 1:
            raise ValueError(f"a curve needs at least one step, not {steps}")
        curve = self.merged()
        edges, levels = curve.edges_ns, curve.bytes
        while levels.size > steps:
            lengths = np.diff(edges).astype(np.float64)
            rise = np.diff(levels)
            cost = np.where(rise > 0, rise * lengths[:-1], -rise * lengths[1:])
            joins = _cheapest_disjoint(cost, max(1, (levels.size - steps + 1) // 2))
            levels = levels.copy()
            levels[joins] = np.maximum(levels[joins], levels[joins + 1])
            edges, levels = np.delete(edges, joins + 1), np.delete(levels, joins + 1)
            curve = MemoryCurve._trusted(edges, levels).merged()
            edges, levels = curve.edges_ns, curve.bytes
        return curve

    def earliest_fit(self, base: MemoryCurve | None, budget: int, not_before_ns: int = 0) -> int | None:
        """The smallest delay, from `not_before_ns` on, with `base + self.shift(delay)` nowhere above `budget`.

        None if there is no such delay. Each pair of a step i of the base and a step j of this curve that exceed the
        budget together forbids an open interval of delays; neighbouring j merge into one interval. The answer is the
        first delay that no interval covers. For a curve with one rise and one fall, the runs of j around its peak, one
        per i, give nearly all intervals and cost a binary search each. All runs are searched only for steps of the base
        that could forbid a later delay.
        """
        levels, peak_step = self.bytes, int(self.bytes.argmax())
        if levels[peak_step] > budget:
            return None
        if base is None:
            return not_before_ns
        headroom = budget - base.bytes
        tight = (headroom < levels[peak_step]).nonzero()[0]
        headroom, begins_ns, ends_ns = headroom[tight], base.edges_ns[tight], base.edges_ns[tight + 1]

        lowest_left = np.minimum.accumulate(levels[peak_step::-1])[::-1]
        lowest_right = np.minimum.accumulate(levels[peak_step:])[::-1]
        run_first = lowest_left.searchsorted(headroom, side="right")
        run_last = levels.size - lowest_right.searchsorted(headroom, side="right")
        edges = self.edges_ns
        delay = _first_gap(begins_ns - edges[run_last], ends_ns - edges[run_first], not_before_ns)

        ever_first = np.maximum.accumulate(levels).searchsorted(headroom, side="right")
        further = (ends_ns - edges[ever_first] > delay).nonzero()[0]
        if further.size == 0:
            return delay
        rows, run_first, run_last = _runs_above(levels, headroom[further])
        rows = further[rows]
        return _first_gap(begins_ns[rows] - edges[run_last], ends_ns[rows] - edges[run_first], delay)


def _whole(numbers: npt.ArrayLike) -> Integers:
    """A copy as integers; a fraction of a byte or of a nanosecond is an error of the caller."""
    given: npt.NDArray[np.generic] = np.asarray(numbers)
    if given.dtype.kind not in "iu" and given.size:
        raise ValueError(f"a curve is made of whole bytes and nanoseconds, not {given.dtype}")
    return given.astype(np.int64)


def _first_gap(after: Integers, before: Integers, start: int) -> int:
    """The smallest number, from `start` on, that lies in none of the open intervals (after, before)."""
    order = after.argsort()
    reached = np.maximum.accumulate(np.concatenate(([start], before[order])))
    gaps = (after[order] >= reached[:-1]).nonzero()[0]
    return int(reached[gaps[0]] if gaps.size else reached[-1])


def _runs_above(values: Integers, thresholds: Integers) -> tuple[Integers, Integers, Integers]:
    """All runs `values[first:last]` above each threshold, as (index of the threshold, first, last)."""
    width = values.size + 2
    above = np.zeros((thresholds.size, width), dtype=np.int8)  # a zero at both ends keeps rows apart
    np.greater(values, thresholds[:, None], out=above[:, 1:-1].view(np.bool_))
    rows, columns = np.divmod(np.diff(above.ravel()).nonzero()[0], width)
    return rows[::2], columns[::2], columns[1::2]


def _cheapest_disjoint(cost: npt.NDArray[np.float64], most: int) -> Integers:
    """Indices of at most `most` of the cheapest joins, no two of them neighbours."""
    cheapest = np.sort(np.argsort(cost, kind="stable")[:most])
    run_starts = np.flatnonzero(np.diff(cheapest, prepend=-2) > 1)
    within_run = np.arange(cheapest.size) - np.repeat(run_starts, np.diff(run_starts, append=cheapest.size))
    disjoint: Integers = cheapest[within_run % 2 == 0]
    return disjoint


def grown_levels(levels: Integers, peak: int) -> Integers:
    """The levels times one factor, rounded up, so that `peak` is the highest; if all are zero, all become `peak`."""
    highest = int(levels.max(initial=0))
    if highest == 0:
        return np.full_like(levels, peak)
    grown: Integers = np.minimum(np.ceil(levels * (peak / highest)).astype(np.int64), peak)
    return grown


def total(curves: Sequence[MemoryCurve]) -> MemoryCurve:
    """The sum of some curves, at least one, over the span from the first start to the last end."""
    _require_some(curves)
    return _summed([curve.edges_ns for curve in curves], [curve.bytes for curve in curves])


def total_remaining(curves: Sequence[MemoryCurve], times_ns: Sequence[int]) -> MemoryCurve | None:
    """The sum of what remains of each curve from its own time on, which becomes zero; None when nothing remains."""
    edges, levels = [], []
    for curve, time_ns in zip(curves, times_ns, strict=True):
        first = curve.step_at(time_ns)
        if first >= curve.bytes.size:
            continue
        left = curve.edges_ns[max(first, 0) :] - time_ns
        if first >= 0:
            left[0] = 0
        edges.append(left)
        levels.append(curve.bytes[max(first, 0) :])
    return _summed(edges, levels) if edges else None


_ZERO = np.zeros(1, dtype=np.int64)


def _summed(edges: Sequence[Integers], levels: Sequence[Integers]) -> MemoryCurve:
    times = np.concatenate(edges)
    # Each curve ends at zero, so the differences are also right where the next curve begins.
    after = np.concatenate([part for each in levels for part in (each, _ZERO)])
    changes = after.copy()
    changes[1:] -= after[:-1]
    order = times.argsort(kind="stable")
    sorted_times, sums = times[order], changes[order].cumsum()
    # Keep the last change at each time: there the sum is complete.
    last = np.ones(times.size, dtype=np.bool_)
    np.not_equal(sorted_times[1:], sorted_times[:-1], out=last[:-1])
    return MemoryCurve._trusted(sorted_times[last], sums[last][:-1])


def _require_some(curves: Sequence[MemoryCurve]) -> None:
    if not curves:
        raise ValueError("no curves were given")
