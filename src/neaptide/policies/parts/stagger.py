"""Staggering (Zico, ATC'21): the sum of the running iterations' curves, and when another iteration fits beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from neaptide.core.control.actions import Action, CapInFlight
from neaptide.core.control.view import JobView
from neaptide.core.traces.curve import MemoryCurve, total, total_remaining
from neaptide.core.traces.profile import Profile
from neaptide.policies.parts.deadlines import kernels_ahead

# Steps of a coarsened curve: enough to follow it to a few per cent, and few enough to fit it in microseconds.
STEPS = 64


@dataclass(frozen=True)
class Stagger:
    """Starts each iteration after the smallest delay for which all curves together stay within the free bytes.

    The jobs are tried in the given order. The first job that must wait keeps its place: its curve, shifted by its
    delay, is added for the jobs behind it, and at most `behind` of those are tried. So a job that overtakes does not
    delay the waiting one, which waits only for iterations that run already.
    """

    in_flight: int  # the largest cap on kernels in flight; the curves are read under it
    early: float  # a delay shorter than this share of the job's time alone is ignored
    behind: int  # jobs tried after the first that must wait
    shortest_wait_ns: int = 20_000

    def plan(
        self,
        waiting: Sequence[JobView],
        running: Sequence[JobView],
        free_bytes: int,
        may_run_beside: Callable[[JobView, Sequence[JobView]], bool] | None = None,
    ) -> tuple[list[JobView], int | None]:
        """The jobs to start now, and the delay after which to decide again on the first job that must wait.

        `may_run_beside` says whether a job may start beside the running ones at all.
        """
        starts: list[JobView] = []
        if not waiting:
            return starts, None
        beside = RunningCurves(running, self.in_flight)
        kept: MemoryCurve | None = None  # the shifted curve of the first job that must wait
        delay_ns, tries = None, len(waiting)
        for job in waiting:
            if tries == 0:
                break
            if may_run_beside is not None and not may_run_beside(job, beside.jobs):
                continue
            tries -= 1
            if kept is None and beside.leaves(job.profile.ephemeral_bytes, free_bytes):
                starts.append(job)
                beside.start(job)
                continue
            own = beside.on_their_clock(job)
            fits = fits_now(own, beside.curve, free_bytes)
            if kept is not None:
                fits = fits and fits_now(own, summed(beside.curve, kept), free_bytes)
            elif not fits:
                late_ns = own.earliest_fit(beside.curve, free_bytes)
                if late_ns is None:
                    continue  # it does not fit even alone
                wait_ns = late_ns - int(self.early * job.profile.solo_ns)
                fits = wait_ns <= 0
                if not fits:
                    # A running iteration may stand still just before it has come far enough: do not look all the time.
                    delay_ns = max(wait_ns, job.profile.solo_ns // 100, self.shortest_wait_ns)
                    kept, tries = own.shift(late_ns), self.behind
            if fits:
                starts.append(job)
                beside.start(job)
        return starts, delay_ns


class RunningCurves:
    """Iterations that run, or start now. Their curves are summed only when `curve` is read, which is seldom."""

    def __init__(self, running: Sequence[JobView], in_flight: int) -> None:
        self.jobs = running
        self._in_flight = in_flight
        # If all reached their highest remaining levels at the same time.
        self._highest_bytes = sum(
            [capped_curve(job.profile, in_flight).remaining_peak(job.position_ns) for job in running]
        )
        self._sum: MemoryCurve | None = None
        self._kept: MemoryCurve | None = None
        self._summed_up = 0  # jobs that are in the sum

    def leaves(self, peak_bytes: int, free_bytes: int) -> bool:
        """Whether an iteration with this peak fits whenever it starts. False does not mean that it never fits."""
        return self._highest_bytes + peak_bytes <= free_bytes

    @property
    def curve(self) -> MemoryCurve | None:
        """What is kept for these iterations from now on: the highest that their curves together still reach.

        The sum of the curves is what they hold. But what they will hold later is kept for them even now, because they
        are older than the next iteration (core/rules/memory_grant.h): it could not use the room before their peak.
        None if nothing remains.
        """
        if self._summed_up < len(self.jobs):
            more = remaining_curve(self.jobs[self._summed_up :], self._in_flight)
            self._sum = self._sum if more is None else summed(self._sum, more)
            self._kept = None if self._sum is None else highest_to_come(self._sum)
            self._summed_up = len(self.jobs)
        return self._kept

    def on_their_clock(self, job: JobView) -> MemoryCurve:
        """A job's curve on the clock of these iterations: beside them, it rises faster if it is slowed down less.

        How much jobs slow each other down is known from their last iterations beside each other.
        """
        own = capped_curve(job.profile, self._in_flight)
        pairs = [(job.beside.get(other.name), other.beside.get(job.name)) for other in self.jobs]
        known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
        if not known:
            return own
        mine, theirs = (sum(each) for each in zip(*known, strict=True))
        return own if mine == theirs else own.stretched_to(max(round(own.duration_ns * mine / theirs), 1))

    def start(self, job: JobView) -> None:
        self.jobs = [*self.jobs, job]
        self._highest_bytes += job.profile.ephemeral_bytes


@lru_cache(maxsize=1024)
def cap_of(profile: Profile, in_flight: int) -> int:
    """The job's cap on kernels in flight: lower for an iteration of few kernels, where each is a large part."""
    return max(2, min(in_flight, profile.kernels // 16))


@lru_cache(maxsize=1024)
def capped_curve(profile: Profile, in_flight: int) -> MemoryCurve:
    """The curve under the cap on kernels in flight, coarsened: never below the exact curve, with the same peak."""
    return profile.curve_ahead(cap_of(profile, in_flight)).coarsen(STEPS)


def remaining_curve(running: Sequence[JobView], in_flight: int) -> MemoryCurve | None:
    """The sum of the remaining parts of the running iterations' curves, from now on; None if nothing remains."""
    curves = [capped_curve(job.profile, in_flight) for job in running]
    return total_remaining(curves, [job.position_ns for job in running])


def highest_to_come(curve: MemoryCurve) -> MemoryCurve:
    """At each moment the highest level from then on."""
    return MemoryCurve(curve.edges_ns, np.maximum.accumulate(curve.bytes[::-1])[::-1])


def caps(jobs: Sequence[JobView], budget_bytes: int, in_flight: int, holds_launched: bool = False) -> list[Action]:
    """Caps on kernels in flight. There are none while all peaks fit at once: launching ahead then harms no job.

    But beside a latency-critical job the others launch as little ahead as beside a deadline under Herald, because
    launched kernels would delay its requests. That costs them some of their speed even while no request is there, so it
    is left out where closed gates hold launched kernels (`holds_launched`).
    """
    crowded = sum([job.profile.peak_bytes for job in jobs]) > budget_bytes
    critical = [] if holds_launched else [job for job in jobs if job.latency_critical]
    if not crowded and not critical:
        return [CapInFlight(job.name, None) for job in jobs if job.in_flight is not None]
    actions = list[Action]()
    for job in jobs:
        bounds = [cap_of(job.profile, in_flight)] if crowded else []
        if critical and job.deadline_ns is None and (ahead := kernels_ahead(job)) is not None:
            bounds.append(ahead)
        if job.in_flight != (cap := min(bounds, default=None)):
            actions.append(CapInFlight(job.name, cap))
    return actions


def summed(base: MemoryCurve | None, own: MemoryCurve) -> MemoryCurve:
    """The sum of two curves, the first of which may be missing."""
    return own if base is None else total([base, own])


def fits_now(own: MemoryCurve, base: MemoryCurve | None, free_bytes: int) -> bool:
    """Whether a curve that starts now stays within the free bytes beside `base`, which also starts now."""
    if base is None:
        return own.peak <= free_bytes
    if int(own.bytes[0]) + int(base.bytes[0]) > free_bytes:
        return False
    if int((own.bytes + base.at(own.edges_ns[:-1])).max()) > free_bytes:
        return False
    return int((base.bytes + own.at(base.edges_ns[:-1])).max()) <= free_bytes
