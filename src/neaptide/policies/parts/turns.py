"""Jobs that do not fit on the device together take turns: one that has waited for a turn takes the place of the job
that has been there longest.

A turn is long enough to be worth the moves (core/rules/turns.py). Without this rule a job would wait for ever behind
one that never ends, or two jobs would displace each other all the time.
"""

from __future__ import annotations

from neaptide.core.control.actions import Action, Admit, Resume, Suspend
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.admission import spare_bytes
from neaptide.policies.parts.admission import has_work


def endless(job: JobView) -> bool:
    """Whether a training job did not say how long it is, so that no other job can wait for its end."""
    return job.kind is JobKind.TRAINING and job.iterations_left is None


def turn_is_over(job: JobView, waiting: JobView, now_ns: int) -> bool:
    """Whether the job has had a turn while the other waited."""
    return now_ns - max(waiting.since_ns, job.lane_since_ns) > max(job.turn_ns, waiting.turn_ns)


def overdue(job: JobView, view: View, equals: bool = False) -> bool:
    """Whether the job has waited for a turn of a job that may leave for it; if `equals`, of one of its priority.

    A job that was never admitted queues behind jobs that will end.
    """
    if job.state not in (JobState.SUSPENDED, JobState.QUEUED):
        return False
    if not has_work(job) or job.profile.peak_bytes > view.budget_bytes:
        return False
    others = [other for other in _may_leave(job, view) if not equals or other.priority == job.priority]
    return any(turn_is_over(other, job, view.now_ns) for other in others)


def overdue_swap(view: View) -> tuple[JobView, list[JobView]] | None:
    """The overdue job that has waited longest, and the jobs to suspend for it, longest on the device first."""
    waiting = [job for job in view.in_state(JobState.SUSPENDED, JobState.QUEUED) if overdue(job, view)]
    if not waiting:
        return None
    job, leave = min(waiting, key=lambda job: job.since_ns), list[JobView]()
    for other in [None, *sorted(_may_leave(job, view), key=lambda other: other.lane_since_ns)]:
        leave += [] if other is None else [other]
        stay = [each.profile for each in view.admitted if each not in leave]
        if spare_bytes([*stay, job.profile], view.budget_bytes) >= 0:
            return (job, leave) if leave else None
    return None


def swap(view: View) -> list[Action]:
    """The actions of the next change of turns; none if no turn is over. The engine restores a job that it evicted."""
    if (found := overdue_swap(view)) is None:
        return []
    job, leave = found
    bring = {JobState.QUEUED: Admit, JobState.SUSPENDED: Resume}[job.state]
    return [*(Suspend(other.name) for other in leave), *([] if job.evicted else [bring(job.name)])]


def _may_leave(job: JobView, view: View) -> list[JobView]:
    others = [other for other in view.admitted if other.deadline_ns is None]
    return [other for other in others if endless(other)] if job.state is JobState.QUEUED else others
