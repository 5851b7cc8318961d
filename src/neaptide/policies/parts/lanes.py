"""Lanes of ephemeral memory (Salus, MLSys'20, section 3.3.2), as pure arithmetic.

The jobs of a lane take turns, so a lane is as large as its largest member. Lanes are safe while
sum(P) + sum over lanes of max(E) <= capacity. The original opens, joins and grows lanes; ours also shrink by themselves
(a lane's size is always that of its present members), merge, and spread out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import has_work


def inside(job: JobView) -> bool:
    """Whether it is inside an iteration, and so holds ephemeral bytes or will when it is back from the host."""
    begun = job.position_ns > 0 or bool(job.serving)
    return job.state is JobState.RUNNING or (job.state is JobState.SUSPENDED and begun)


@dataclass(frozen=True)
class Lanes:
    """Which jobs share which lane. Never changes: every verb gives other lanes, or None where it cannot be done."""

    capacity_bytes: int
    members: Mapping[int, tuple[JobView, ...]]
    settled: bool = False  # as they will be when no iteration runs: two that were merged while both ran take turns then

    @classmethod
    def of(cls, view: View) -> Lanes:
        members: dict[int, tuple[JobView, ...]] = {}
        for job in view.jobs:
            if job.admitted:
                lane = job.lane or 0
                members[lane] = (*members.get(lane, ()), job)
        return cls(view.budget_bytes, members)

    @cached_property
    def sizes(self) -> Mapping[int, int]:
        return {lane: _size(jobs, self.settled) for lane, jobs in self.members.items()}

    @cached_property
    def free_bytes(self) -> int:
        """What the safety condition leaves; less than nothing when it does not hold."""
        persistent = sum(job.profile.persistent_bytes for jobs in self.members.values() for job in jobs)
        return self.capacity_bytes - persistent - sum(self.sizes.values())

    @property
    def safe(self) -> bool:
        return self.free_bytes >= 0

    def lane_of(self) -> dict[str, int]:
        return {job.name: lane for lane, jobs in self.members.items() for job in jobs}

    # --- placing a job that comes (the paper's order: open, join the best match, resize the smallest that can grow)

    def place(self, job: JobView, most_lanes: int | None = None, share: bool = True) -> Lanes | None:
        """With the job in a lane of its own, or else in one that it shares; at most so many lanes."""
        free = self.free_bytes - job.profile.persistent_bytes
        if free < 0:
            return None
        needed = job.profile.ephemeral_bytes
        if job.kind is JobKind.INFERENCE and (served := self._serving()) is not None:
            if max(needed - self.sizes[served], 0) <= free:
                return self._with(job, served)
        elif needed <= free and (most_lanes is None or len(self.members) < most_lanes):
            return self._with(job, self._unused())
        if not share:
            return None
        by_size = sorted((size, lane) for lane, size in self.sizes.items())
        joins = [lane for size, lane in by_size if size >= needed]
        grows = [lane for size, lane in by_size if size < needed and needed - size <= free]
        return self._with(job, (joins + grows)[0]) if joins or grows else None

    def _serving(self) -> int | None:
        """The lane where inference instances are packed: each needs it only for a moment."""
        packed = [lane for lane, jobs in self.members.items() if any(job.kind is JobKind.INFERENCE for job in jobs)]
        return min(packed, default=None)

    # --- merging and spreading

    def merged(self) -> Lanes:
        """With the two smallest lanes in one; the smaller of the two is won once their running iterations end."""
        keep, gone = sorted(sorted(self.members, key=lambda lane: (self.sizes[lane], lane))[:2])
        members = {lane: jobs for lane, jobs in self.members.items() if lane != gone}
        members[keep] = (*self.members[keep], *self.members[gone])
        return Lanes(self.capacity_bytes, members)

    def make_room(self, job: JobView) -> Lanes:
        """With the fewest merges after which the job has a place when what runs has ended; unchanged if none helps."""
        lanes = self
        while lanes._settled().place(job, len(lanes.members)) is None:
            if len(lanes.members) < 2:
                return self
            lanes = lanes.merged()
        return lanes

    def _settled(self) -> Lanes:
        return Lanes(self.capacity_bytes, self.members, settled=True)

    def made_safe(self) -> Lanes:
        """Merged until the safety condition holds again, after the budget has become smaller."""
        lanes = self
        while len(lanes.members) > 1 and not (lanes.safe or lanes._settled().safe):
            lanes = lanes.merged()
        return lanes

    def spread(self) -> Lanes:
        """With training jobs that wait for their turn in lanes of their own, as far as the room goes."""
        lanes = self
        for lane, jobs in self.members.items():
            waiting = [job for job in jobs if not inside(job) and job.kind is JobKind.TRAINING]
            for job in sorted(waiting, key=lambda job: job.profile.ephemeral_bytes):
                rest = tuple(other for other in lanes.members[lane] if other is not job)
                if not rest or not any(inside(other) or has_work(other) for other in rest):
                    continue
                apart = Lanes(self.capacity_bytes, {**lanes.members, lane: rest, lanes._unused(): (job,)})
                if apart.safe:
                    lanes = apart
        return lanes

    def without(self, job: JobView) -> Lanes:
        """With the job gone, and its lane with it if it was alone there."""
        members = {lane: tuple(each for each in jobs if each is not job) for lane, jobs in self.members.items()}
        return Lanes(self.capacity_bytes, {lane: jobs for lane, jobs in members.items() if jobs})

    def _with(self, job: JobView, lane: int) -> Lanes:
        return Lanes(self.capacity_bytes, {**self.members, lane: (*self.members.get(lane, ()), job)})

    def _unused(self) -> int:
        return next(lane for lane in range(len(self.members) + 1) if lane not in self.members)


def _size(jobs: tuple[JobView, ...], settled: bool) -> int:
    largest = max(job.profile.ephemeral_bytes for job in jobs)
    return largest if settled else max(largest, sum(job.profile.ephemeral_bytes for job in jobs if inside(job)))
