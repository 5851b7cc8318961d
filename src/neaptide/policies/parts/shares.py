"""Priority as a share of the device: which job is due, by what the jobs of its priority have had over their weights.

Jobs of one priority are not told apart here; the policy's own rule orders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from neaptide.core.control.job import QUEUED, READY, RUNNING
from neaptide.core.control.view import JobView, View
from neaptide.core.once import once
from neaptide.core.rules.shares import weight
from neaptide.policies.parts.admission import has_work

_FULL = 1.0  # jobs that together use no more of the device do not compete
_SLOWED = 1.1  # unless one of them took this many times as long as alone
_SOON_NS = 2_000_000  # a job that has not begun its iteration by then is busy elsewhere


def due(job: JobView) -> tuple[int, int]:
    """The order in which priorities start iterations: the one that has had the least first, of equals the higher."""
    return job.priority_ns, -job.priority


def leaves_for(job: JobView, other: JobView) -> bool:
    """Whether a job leaves the device for one of another priority that does not fit beside it."""
    if other.priority > job.priority:
        return other.priority_ns <= job.priority_ns
    return job.priority_ns - other.priority_ns >= other.turn_ns / weight(other.priority)


def with_turns(view: View) -> frozenset[str]:
    """The jobs that go before more urgent jobs that do not fit beside them, because the urgent ones have had more."""
    if not view.has_priorities or not view.away:
        return frozenset()
    return frozenset(job.name for job in view.jobs if _has_turn(job, view.jobs))


def _has_turn(job: JobView, others: Iterable[JobView]) -> bool:
    urgent = [other for other in others if other.priority > job.priority and other.deadline_ns is None]
    if job.admitted:
        return any(not leaves_for(job, other) for other in urgent if not other.admitted and has_work(other))
    return any(leaves_for(other, job) for other in urgent if other.admitted)


@dataclass(frozen=True)
class Competition:
    """The jobs on the device that compete for it. Jobs with a deadline go before all of them, and do not count."""

    jobs: Sequence[JobView]
    now_ns: int

    def may_start(self, job: JobView) -> bool:
        """Whether the job may begin an iteration: no job of another priority is due before it."""
        return job.priority_ns <= self._least_ns

    @property
    def wake_ns(self) -> int | None:
        """When to ask again, because a job that is due may turn out to be busy elsewhere; None: at the next event."""
        return min((job.started_ns + _SOON_NS for job in self._claims if self._is_starting(job)), default=None)

    @once
    def _least_ns(self) -> int:
        return min((job.priority_ns for job in self._claims), default=2**62)

    @once
    def _claims(self) -> list[JobView]:
        if len({job.priority for job in self.jobs}) < 2:
            return []
        here = [job for job in self.jobs if job.deadline_ns is None and self._claims_device(job)]
        return here if _compete(here) else []

    def _claims_device(self, job: JobView) -> bool:
        if job.state is RUNNING:
            return job.position_ns > 0 or self._is_starting(job)
        return job.state in (READY, QUEUED) and has_work(job) and not job.finishing

    def _is_starting(self, job: JobView) -> bool:
        begins = job.state is RUNNING and job.position_ns == 0
        return begins and self.now_ns < job.started_ns + _SOON_NS


def _compete(jobs: Sequence[JobView]) -> bool:
    names = {job.name for job in jobs}
    if sum(job.profile.utilisation for job in jobs) > _FULL:
        return True
    return any(slower > _SLOWED for job in jobs for other, slower in job.beside.items() if other in names)
