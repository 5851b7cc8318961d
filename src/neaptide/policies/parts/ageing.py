"""A job that was suspended for too long takes the place of the job that has been on the device longest.

Without this rule, a job suspended by a lasting budget cut would wait for ever behind a job that never ends.
"""

from __future__ import annotations

from neaptide.core.control.job import JobState
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.admission import spare_bytes
from neaptide.policies.parts.admission import has_work
from neaptide.policies.parts.copying import worth_a_copy_ns

PATIENCE = 50  # iterations of the suspended job, alone


def overdue(job: JobView, view: View) -> bool:
    """Whether the job has been suspended, and a job that may leave for it has been on the device, for long enough."""
    if job.state is not JobState.SUSPENDED or not has_work(job) or job.profile.peak_bytes > view.budget_bytes:
        return False
    served_since_ns = min([other.lane_since_ns for other in _may_leave(job, view)], default=view.now_ns)
    enough_ns = max(PATIENCE * job.profile.solo_ns, worth_a_copy_ns(job))
    return view.now_ns - max(job.since_ns, served_since_ns) > enough_ns


def overdue_swap(view: View) -> tuple[JobView, list[JobView]] | None:
    """The longest suspended of the overdue jobs, and the jobs to suspend for it, longest on the device first."""
    suspended = [job for job in view.in_state(JobState.SUSPENDED) if overdue(job, view)]
    if not suspended:
        return None
    job, leave = min(suspended, key=lambda job: job.since_ns), list[JobView]()
    for other in [None, *sorted(_may_leave(job, view), key=lambda other: other.lane_since_ns)]:
        leave += [] if other is None else [other]
        stay = [each.profile for each in view.admitted if each not in leave]
        if spare_bytes([*stay, job.profile], view.budget_bytes) >= 0:
            return (job, leave) if leave else None
    return None


def _may_leave(job: JobView, view: View) -> list[JobView]:
    return [other for other in view.admitted if other.deadline_ns is None and other.priority <= job.priority]
