"""Jobs that do not fit on the device together take turns: one that has waited for a turn takes the place of the job
that has been there longest.

A turn is long enough to be worth the moves (core/rules/turns.py). Without this rule a job would wait for ever behind
one that never ends, or two jobs would displace each other all the time.
"""

from __future__ import annotations

from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Resume, Suspend
from neaptide.core.control.job import QUEUED, SUSPENDED, TRAINING
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import fits_without, has_work
from neaptide.policies.parts.idle import make_way


def endless(job: JobView) -> bool:
    """Whether a training job did not say how long it is, so that no other job can wait for its end."""
    return job.kind is TRAINING and job.iterations_left is None


def turn_is_over(job: JobView, waiting: JobView, now_ns: int) -> bool:
    """Whether the job has had a turn while the other waited."""
    return now_ns - max(waiting.since_ns, job.lane_since_ns) > max(job.turn_ns, waiting.turn_ns)


@dataclass(frozen=True, slots=True)
class Turns:
    """Which jobs have waited for their turn, at one moment."""

    view: View
    leaving: list[JobView]  # the jobs on the device that may leave for another: those without a deadline
    endless: list[JobView]  # those of them that may leave for a queued job, which waits for all that will end

    @classmethod
    def of(cls, view: View) -> Turns:
        leaving = [job for job in view.admitted if job.deadline_ns is None]
        return cls(view, leaving, [job for job in leaving if endless(job)])

    def may_leave_for(self, job: JobView) -> list[JobView]:
        return self.endless if job.state is QUEUED else self.leaving

    def overdue(self, job: JobView, equals: bool = False) -> bool:
        """Whether the job has waited for a turn of a job that may leave for it; if `equals`, of one of its priority."""
        if job.state not in (SUSPENDED, QUEUED) or not (others := self.may_leave_for(job)):
            return False
        if not has_work(job) or job.profile.peak_bytes > self.view.budget_bytes:
            return False
        if equals:
            others = [other for other in others if other.priority == job.priority]
        return any(turn_is_over(other, job, self.view.now_ns) for other in others)


def overdue_swap(view: View) -> tuple[JobView, list[JobView]] | None:
    """The overdue job that has waited longest, and the jobs to suspend for it, longest on the device first."""
    turns = Turns.of(view)
    waiting = [job for job in view.away if turns.overdue(job)]
    if not waiting:
        return None
    job, leave = min(waiting, key=lambda job: job.since_ns), list[JobView]()
    for other in [None, *sorted(turns.may_leave_for(job), key=lambda other: other.lane_since_ns)]:
        leave += [] if other is None else [other]
        if fits_without(leave, job, view):
            return (job, leave) if leave else None
    return None


def swap(view: View) -> list[Action]:
    """The actions of the next change of turns; none if no turn is over. The engine restores a job that it evicted.

    Servers that are long idle make way first: nobody waits for their turn.
    """
    if not view.away or (found := make_way(view) or overdue_swap(view)) is None:
        return []
    job, leave = found
    bring = {QUEUED: Admit, SUSPENDED: Resume}[job.state]
    return [*(Suspend(other.name) for other in leave), *([] if job.evicted else [bring(job.name)])]
