"""Some jobs go first: their whole peaks are reserved, and the other jobs share the remaining memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Resume, Suspend
from neaptide.core.control.job import QUEUED, READY, RUNNING, SUSPENDED
from neaptide.core.control.view import JobView, View
from neaptide.core.once import once
from neaptide.core.rules.admission import Together
from neaptide.policies.parts.admission import has_work, places, without_claim
from neaptide.policies.parts.idle import long_idle_servers
from neaptide.policies.parts.shares import due, with_turns
from neaptide.policies.parts.turns import Turns


@dataclass(frozen=True)
class Precedence:
    """The jobs that go first and the others, each in their order. Jobs larger than the budget are in neither."""

    view: View
    first: Sequence[JobView]
    after: Sequence[JobView]

    @once
    def kept(self) -> list[JobView]:
        """The other jobs that may be on the device beside the first ones: each could run there, one at a time."""
        if sum([job.profile.peak_bytes for job in self.after]) <= self._left_bytes:
            return list(self.after)  # the usual case: all peaks fit at once
        kept, together = list[JobView](), Together()
        for job in self.after:
            if together.fits_with(job.profile, self._left_bytes):
                together.add(job.profile)
                kept.append(job)
        return kept

    @once
    def _left_bytes(self) -> int:
        return self.view.budget_bytes - sum(job.profile.peak_bytes for job in self.first)

    @once
    def _kept_names(self) -> frozenset[str]:
        return frozenset([job.name for job in self.kept])

    @once
    def moves(self) -> list[Action]:
        """Suspends the jobs that have no place, between iterations; admits or resumes the jobs that now fit."""
        out = [job for job in self.after if job.name not in self._kept_names]
        leave = [job for job in out if job.state is READY and not job.finishing]
        actions: list[Action] = [Suspend(job.name) for job in leave]
        if not self.view.away:
            return actions
        inside = Together()
        for profile in places(self.view, leave):
            inside.add(profile)
        # A job comes only when the job that leaves for it has ended its iteration. If both were on the device, none
        # would wait for a turn any more, and the one that has just come would have to leave again.
        leaving_priority = max([job.priority for job in out if job.state is RUNNING], default=None)
        for job in (*self.first, *self.kept):
            if leaving_priority is not None and job.priority <= leaving_priority:
                continue
            away = not job.admitted and not job.evicted  # the engine restores those that it evicted
            if away and inside.fits_with(job.profile, self.view.budget_bytes):
                inside.add(job.profile)
                actions.append(Admit(job.name) if job.state is QUEUED else Resume(job.name))
        return actions

    @once
    def coming(self) -> frozenset[str]:
        """The jobs that come to the device by `moves`."""
        return frozenset([move.job for move in self.moves if isinstance(move, (Admit, Resume))])

    @once
    def going(self) -> frozenset[str]:
        """The jobs that leave the device by `moves`."""
        return frozenset([move.job for move in self.moves if isinstance(move, Suspend)])

    def ready(self, jobs: Sequence[JobView]) -> list[JobView]:
        """Those of `jobs` that have work and are on the device, or come to it by `moves`."""
        coming = self.coming
        here = [job for job in jobs if job.state is READY or job.name in coming]
        return [job for job in here if job.wants_to_run or (job.name in coming and has_work(job))]

    @property
    def beside(self) -> list[JobView]:
        """The other jobs that can start an iteration and leave the first ones their peaks; longest waiting first."""
        left = self._left_bytes
        there = [job for job in self.after if job.admitted or job.name in self._kept_names]
        left -= sum([job.profile.persistent_bytes for job in there])
        left -= sum([job.profile.ephemeral_bytes for job in self.after if job.state is RUNNING])
        starts: list[JobView] = []
        ready = sorted(self.ready(self.kept), key=lambda job: job.since_ns)
        for job in sorted(ready, key=due) if self.view.has_priorities else ready:
            if job.profile.ephemeral_bytes <= left:
                left -= job.profile.ephemeral_bytes
                starts.append(job)
        return starts


def in_turn(view: View) -> list[JobView]:
    """The jobs that fit the budget: larger priorities first unless others are due a turn, then in the order of arrival.

    A suspended job ranks by the time of its suspension instead of its arrival. A job that is overdue goes before those
    of its priority. A server that is long idle comes last; a suspended one without a request is left out.
    """
    fits = [job for job in view.jobs if job.profile.peak_bytes <= view.budget_bytes]
    idle = long_idle_servers(view)
    if not (idle or view.away or view.has_priorities):
        return sorted(fits, key=lambda job: job.arrived_ns)
    due_priority, turns = with_turns(view), Turns.of(view)

    def turn(job: JobView) -> tuple[int, ...]:
        since_ns = job.since_ns if job.state is SUSPENDED else job.arrived_ns
        waits = turns.overdue(job, equals=True)
        return (job in idle, job.name not in due_priority, -job.priority, not waits, since_ns)

    return sorted([job for job in fits if not without_claim(job)], key=turn)
