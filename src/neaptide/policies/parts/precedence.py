"""Some jobs go first: their whole peaks are kept free for them, and the others share what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from neaptide.core.control.actions import Action, Admit, Resume, Suspend
from neaptide.core.control.job import JobState
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import has_work, room
from neaptide.policies.parts.ageing import overdue

_COME = {JobState.QUEUED: Admit, JobState.SUSPENDED: Resume}


@dataclass(frozen=True)
class Precedence:
    """Who goes first and who comes after, each in its order; jobs larger than the budget are in neither."""

    view: View
    first: Sequence[JobView]
    after: Sequence[JobView]

    @cached_property
    def kept(self) -> list[JobView]:
        """Those that may be on the device beside the first ones: each of them could run there, one at a time."""
        kept: list[JobView] = []
        left, ephemeral = self._left_bytes, 0
        for job in self.after:
            highest = max(ephemeral, job.profile.ephemeral_bytes)
            if job.profile.persistent_bytes + highest <= left:
                left -= job.profile.persistent_bytes
                ephemeral = highest
                kept.append(job)
        return kept

    @property
    def _left_bytes(self) -> int:
        return self.view.budget_bytes - sum(job.profile.peak_bytes for job in self.first)

    @cached_property
    def moves(self) -> list[Action]:
        """Who leaves the device, at the end of its iteration, and who comes to it."""
        out = [job for job in self.after if job not in self.kept]
        leave = [job for job in out if job.state is JobState.READY and not job.finishing]
        actions: list[Action] = [Suspend(job.name) for job in leave]
        inside = [job.profile for job in self.view.admitted if job not in leave]
        for job in (*self.first, *self.kept):
            come = None if job.evicted else _COME.get(job.state)
            if come and room([*inside, job.profile], self.view.budget_bytes) >= 0:
                inside.append(job.profile)
                actions.append(come(job.name))
        return actions

    def ready(self, jobs: Sequence[JobView]) -> list[JobView]:
        """Those of the jobs that have work and are on the device, or have just come to it."""
        came = {move.job for move in self.moves if isinstance(move, (Admit, Resume))}
        return [job for job in jobs if job.wants_to_run or (job.name in came and has_work(job))]

    @property
    def beside(self) -> list[JobView]:
        """Those of the others that can start an iteration and leave the first ones their peaks."""
        left = self._left_bytes
        left -= sum(job.profile.persistent_bytes for job in self.after if job in self.kept or job.admitted)
        left -= sum(job.profile.ephemeral_bytes for job in self.after if job.state is JobState.RUNNING)
        starts: list[JobView] = []
        for job in self.ready(self.kept):
            if job.profile.ephemeral_bytes <= left:
                left -= job.profile.ephemeral_bytes
                starts.append(job)
        return starts


def in_turn(view: View) -> list[JobView]:
    """The jobs that fit the budget: larger priorities first, then in the order of arrival.

    Who has gone to host memory comes after those that were there before it went, until it is overdue.
    """

    def turn(job: JobView) -> tuple[int, ...]:
        if job.state is not JobState.SUSPENDED:
            return (-job.priority, 1, job.arrived_ns)
        return (-job.priority, 0 if overdue(job, view) else 1, job.since_ns)

    return sorted([job for job in view.jobs if job.profile.peak_bytes <= view.budget_bytes], key=turn)
