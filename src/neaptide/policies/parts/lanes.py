"""Lanes of ephemeral memory (Salus, MLSys'20, section 3.3.2), as pure arithmetic.

The jobs of a lane take turns, so a lane is as large as its largest member. The board keeps that many bytes for the
iterations of the lane (core/rules/memory_grant.h). Lanes are safe while
sum(P) + sum over lanes of max(E) <= capacity. The paper's lanes open, take in jobs and grow. These lanes also shrink (a
lane is always as large as its present members need), merge, and split again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neaptide.core.control.actions import Action, SizeLane
from neaptide.core.control.job import INFERENCE, RUNNING, SUSPENDED, TRAINING
from neaptide.core.control.view import JobView, View
from neaptide.core.once import once
from neaptide.policies.parts.admission import expects_work


def in_iteration(job: JobView) -> bool:
    """Whether the job is inside an iteration: it holds ephemeral bytes, or will again when it is resumed."""
    return job.state is RUNNING or (job.state is SUSPENDED and (job.position_ns > 0 or bool(job.serving)))


@dataclass(frozen=True)
class Lanes:
    """Which jobs share which lane. Frozen: every method returns other lanes, or None if the change is impossible."""

    capacity_bytes: int
    members: Mapping[int, tuple[JobView, ...]]
    settled: bool = False  # count each lane as when the running iterations have ended: its largest member only

    @classmethod
    def of(cls, view: View) -> Lanes:
        members: dict[int, list[JobView]] = {}
        for job in view.admitted:
            members.setdefault(job.lane or 0, []).append(job)
        return cls(view.budget_bytes, {lane: tuple(jobs) for lane, jobs in members.items()})

    @once
    def sizes(self) -> Mapping[int, int]:
        return {lane: _size(jobs, self.settled) for lane, jobs in self.members.items()}

    @once
    def free_bytes(self) -> int:
        """Bytes that the safety condition leaves free; below zero when it does not hold."""
        persistent = sum([job.profile.persistent_bytes for jobs in self.members.values() for job in jobs])
        return self.capacity_bytes - persistent - sum(self.sizes.values())

    @property
    def safe(self) -> bool:
        return self.free_bytes >= 0

    @property
    def numbered(self) -> bool:
        """Whether every member has been given its lane."""
        return not [job for jobs in self.members.values() for job in jobs if job.lane is None]

    def lane_of(self) -> dict[str, int]:
        return {job.name: lane for lane, jobs in self.members.items() for job in jobs}

    def resizing(self, present: Mapping[int, int]) -> list[Action]:
        """The actions that give each lane its size, from the present ones: lanes shrink before others grow.

        After a merge a lane may hold more than fits beside the others; until its iterations have ended it gets what
        there is. Evicted jobs have their bytes when the engine has restored them.
        """
        here = {lane: tuple([job for job in jobs if not job.evicted]) for lane, jobs in self.members.items()}
        if here == self.members and self.sizes == present:
            return []
        wanted = {lane: _size(jobs, self.settled) for lane, jobs in here.items() if jobs}
        sizes = {lane: min(size, wanted.get(lane, 0)) for lane, size in present.items()}
        at_rest = sum(job.profile.persistent_bytes for jobs in here.values() for job in jobs)
        free = self.capacity_bytes - at_rest - sum(sizes.values())
        shrunk = [lane for lane, size in sizes.items() if size < present[lane]]
        grown = []
        for lane, size in wanted.items():
            more = min(size - sizes.get(lane, 0), free)
            if more > 0:
                sizes[lane] = sizes.get(lane, 0) + more
                free -= more
                grown.append(lane)
        return [SizeLane(lane, sizes[lane]) for lane in (*shrunk, *(lane for lane in grown if lane not in shrunk))]

    # --- placing a new job (the paper's order: open a lane, join the best match, grow the smallest that can grow)

    def place(self, job: JobView, most_lanes: int | None = None, share: bool = True) -> Lanes | None:
        """These lanes with the job in a lane of its own or, if `share`, in another's; at most `most_lanes` of them."""
        free = self.free_bytes - job.profile.persistent_bytes
        if free < 0:
            return None
        needed = job.profile.ephemeral_bytes
        if job.kind is INFERENCE and (served := self._serving()) is not None:
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
        """The lane that all inference jobs share: each needs it only for a moment."""
        packed = [lane for lane, jobs in self.members.items() if any(job.kind is INFERENCE for job in jobs)]
        return min(packed, default=None)

    # --- merging and spreading

    def merged(self) -> Lanes:
        """These lanes with the two smallest in one. The smaller one's bytes are free when its iteration has ended."""
        keep, gone = sorted(sorted(self.members, key=lambda lane: (self.sizes[lane], lane))[:2])
        members = {lane: jobs for lane, jobs in self.members.items() if lane != gone}
        members[keep] = (*self.members[keep], *self.members[gone])
        return Lanes(self.capacity_bytes, members)

    def make_room(self, job: JobView) -> Lanes:
        """These lanes after the fewest merges that give the job a place once the running iterations have ended.

        Unchanged if no merge helps.
        """
        lanes = self
        while lanes._settled().place(job, len(lanes.members)) is None:
            if len(lanes.members) < 2:
                return self
            lanes = lanes.merged()
        return lanes

    def _settled(self) -> Lanes:
        return Lanes(self.capacity_bytes, self.members, settled=True)

    def made_safe(self) -> Lanes:
        """These lanes merged until the safety condition holds again, after a budget cut."""
        lanes = self
        while len(lanes.members) > 1 and not (lanes.safe or lanes._settled().safe):
            lanes = lanes.merged()
        return lanes

    def spread(self) -> Lanes:
        """These lanes with waiting training jobs moved to lanes of their own, as far as memory allows."""
        lanes = self
        for lane, jobs in self.members.items():
            if len(jobs) == 1:
                continue
            waiting = [job for job in jobs if not in_iteration(job) and job.kind is TRAINING]
            for job in sorted(waiting, key=lambda job: job.profile.ephemeral_bytes):
                rest = tuple(other for other in lanes.members[lane] if other is not job)
                if not rest or not any(in_iteration(other) or expects_work(other) for other in rest):
                    continue
                apart = Lanes(self.capacity_bytes, {**lanes.members, lane: rest, lanes._unused(): (job,)})
                if apart.safe:
                    lanes = apart
        return lanes

    def without(self, job: JobView) -> Lanes:
        """These lanes without the job, and without its lane if the job was alone there."""
        members = {lane: tuple(each for each in jobs if each is not job) for lane, jobs in self.members.items()}
        return Lanes(self.capacity_bytes, {lane: jobs for lane, jobs in members.items() if jobs})

    def _with(self, job: JobView, lane: int) -> Lanes:
        return Lanes(self.capacity_bytes, {**self.members, lane: (*self.members.get(lane, ()), job)})

    def _unused(self) -> int:
        return next(lane for lane in range(len(self.members) + 1) if lane not in self.members)


def _size(jobs: tuple[JobView, ...], settled: bool) -> int:
    largest = max([job.profile.ephemeral_bytes for job in jobs])
    if settled:
        return largest
    return max(largest, sum([job.profile.ephemeral_bytes for job in jobs if in_iteration(job)]))
