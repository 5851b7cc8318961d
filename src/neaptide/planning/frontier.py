"""Several plans of one job, from fast to small, for a policy to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError, Plan, Planner

SHARES = (0.9, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2)  # of the bytes between the lower bound and the unplanned peak


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A plan and its planned trace."""

    plan: Plan
    trace: Trace

    @property
    def peak_bytes(self) -> int:
        return self.trace.peak_bytes

    @property
    def seconds(self) -> float:
        return self.trace.seconds


def frontier(
    trace: Trace, device: DeviceSpec, planners: Sequence[Planner], shares: Sequence[float] = SHARES
) -> tuple[Point, ...]:
    """Plans that no other plan beats in both bytes and seconds, by falling bytes.

    The first point is the unplanned trace. `Job.alternatives` takes the traces of the others.
    """
    bound, peak = lower_bound(trace), trace.peak_bytes
    points = [Point(Plan(planner="none"), trace)]
    for planner in planners:
        for share in sorted(shares, reverse=True):
            try:
                made = planner(trace, bound + int(share * (peak - bound)), device)
            except CannotFitError:
                break  # the planner cannot meet a smaller budget either
            points.append(Point(made, apply(trace, made, device)))
    return undominated(points)


def undominated(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points that no other point beats, by falling bytes and rising seconds."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda each: (each.seconds, each.peak_bytes)):
        if not kept or point.peak_bytes < kept[-1].peak_bytes:
            kept.append(point)
    return tuple(kept)
