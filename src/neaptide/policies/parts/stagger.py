"""Staggering: the sum of the tides that are under way, and when another one fits beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from neaptide.core.control.actions import Action, CapInFlight
from neaptide.core.control.view import JobView
from neaptide.core.traces.curve import MemoryCurve, total, total_remaining
from neaptide.core.traces.profile import Profile

# Enough to follow a tide to a few per cent, and few enough to fit it in microseconds.
STEPS = 64


@dataclass(frozen=True)
class Stagger:
    """Starts iterations after the smallest delay with which all curves together stay within the bytes there are.

    The jobs are fitted in the order given. The first that must wait keeps its place: its curve, shifted by its delay,
    counts for those behind it, and the next `behind` of them start only if they fit beside that. So whoever overtakes
    it does not delay it, and it waits for iterations that run already, and for no others.
    """

    in_flight: int  # the largest cap on kernels in flight; the curves are read under it
    early: float  # a delay shorter than this share of the iteration alone is not waited for
    behind: int
    shortest_wait_ns: int = 20_000

    def plan(
        self,
        waiting: Sequence[JobView],
        running: Sequence[JobView],
        free_bytes: int,
        may_run_beside: Callable[[JobView, Sequence[JobView]], bool] | None = None,
        not_early: Callable[[JobView, Sequence[JobView]], bool] | None = None,
    ) -> tuple[list[JobView], int | None]:
        """The jobs to start now, and the delay after which to ask again for the first of those that wait.

        `may_run_beside` says who may start beside whom at all, `not_early` who must wait for the whole delay.
        """
        starts: list[JobView] = []
        if not waiting:
            return starts, None
        beside = UnderWay(running, self.in_flight)
        kept: MemoryCurve | None = None  # the curve of the first that must wait, at its place
        delay_ns, tries = None, len(waiting)
        for job in waiting:
            if tries == 0:
                break
            if may_run_beside is not None and not may_run_beside(job, beside.jobs):
                continue
            tries -= 1
            own = tide_of(job.profile, self.in_flight)
            if kept is not None:
                fits = fits_now(own, beside.curve, free_bytes)
                fits = fits and fits_now(own, summed(beside.curve, kept), free_bytes)
            elif not (
                fits := beside.leaves(job.profile.ephemeral_bytes, free_bytes)
                or fits_now(own, beside.curve, free_bytes)
            ):
                late_ns = own.earliest_fit(beside.curve, free_bytes)
                if late_ns is None:
                    continue  # it does not even fit alone
                in_time = not_early is not None and not_early(job, beside.jobs)
                wait_ns = late_ns if in_time else late_ns - int(self.early * job.profile.solo_ns)
                fits = wait_ns <= 0
                if not fits:
                    # What runs may slow down, so that delays shrink by ever less: it is not asked all too often.
                    delay_ns = max(wait_ns, job.profile.solo_ns // 100, self.shortest_wait_ns)
                    kept, tries = own.shift(late_ns), self.behind
            if fits:
                starts.append(job)
                beside.start(job)
        return starts, delay_ns


class UnderWay:
    """Iterations that run, or start now. Their curves are summed up only when that is asked for: often nobody does."""

    def __init__(self, running: Sequence[JobView], in_flight: int) -> None:
        self.jobs = running
        self._in_flight = in_flight
        # If each came to the highest level that it has before it at the same time.
        self._highest_bytes = sum(_tide(job, in_flight).remaining_peak(job.position_ns) for job in running)
        self._curve: MemoryCurve | None = None
        self._summed_up = 0  # so many of the jobs are in the curve

    def leaves(self, peak_bytes: int, free_bytes: int) -> bool:
        """Whether there is room for such a peak at any time from now on; if not, it may still find its place."""
        return self._highest_bytes + peak_bytes <= free_bytes

    @property
    def curve(self) -> MemoryCurve | None:
        """What is left of all their curves, with now as its zero; None if nothing is."""
        if self._summed_up < len(self.jobs):
            more = under_way(self.jobs[self._summed_up :], self._in_flight)
            self._curve = self._curve if more is None else summed(self._curve, more)
            self._summed_up = len(self.jobs)
        return self._curve

    def start(self, job: JobView) -> None:
        self.jobs = [*self.jobs, job]
        self._highest_bytes += job.profile.ephemeral_bytes


@lru_cache(maxsize=1024)
def cap_of(profile: Profile, in_flight: int) -> int:
    """The cap on kernels in flight for an iteration of few kernels is lower: each of them is a large part of it."""
    return max(2, min(in_flight, profile.kernels // 16))


@lru_cache(maxsize=1024)
def tide_of(profile: Profile, in_flight: int) -> MemoryCurve:
    """The curve under the cap on kernels in flight, in few steps: nowhere below it, with the same peak."""
    return profile.curve_ahead(cap_of(profile, in_flight)).coarsen(STEPS)


def under_way(running: Sequence[JobView], in_flight: int) -> MemoryCurve | None:
    """The sum of what is left of the running iterations' curves, with now as its zero; None if nothing is."""
    return total_remaining([_tide(job, in_flight) for job in running], [job.position_ns for job in running])


def _tide(job: JobView, in_flight: int) -> MemoryCurve:
    return tide_of(job.profile, in_flight)


def caps(jobs: Sequence[JobView], budget_bytes: int, in_flight: int) -> list[Action]:
    """Caps on kernels in flight; none while all jobs could be at their peaks at once: launching ahead harms nobody."""
    crowded = sum(job.profile.peak_bytes for job in jobs) > budget_bytes
    return [
        CapInFlight(job.name, cap)
        for job in jobs
        if job.in_flight != (cap := cap_of(job.profile, in_flight) if crowded else None)
    ]


def summed(base: MemoryCurve | None, own: MemoryCurve) -> MemoryCurve:
    """The sum with a base that may be nothing."""
    return own if base is None else total([base, own])


def fits_now(own: MemoryCurve, base: MemoryCurve | None, free_bytes: int) -> bool:
    """Whether a curve that starts now stays within the bytes beside another that has now as its zero."""
    if base is None:
        return own.peak <= free_bytes
    if int(own.bytes[0]) + int(base.bytes[0]) > free_bytes:
        return False
    if int((own.bytes + base.at(own.edges_ns[:-1])).max()) > free_bytes:
        return False
    return int((base.bytes + own.at(base.edges_ns[:-1])).max()) <= free_bytes
