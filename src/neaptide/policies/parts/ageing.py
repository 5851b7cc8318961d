"""Jobs in host memory that have waited long enough: the longest on the device makes way, so that all get on.

Under a budget that was cut for good, a job that had to leave would otherwise wait for ever behind one that never ends.
"""

from __future__ import annotations

from neaptide.core.control.job import JobState
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import has_work, room
from neaptide.policies.parts.residence import LINK_BYTES_PER_NS, WORTH_A_COPY

PATIENCE = 50  # iterations of its own, alone


def overdue(job: JobView, view: View) -> bool:
    """Whether a job has been in host memory, and one that may make way for it on the device, for long enough."""
    if job.state is not JobState.SUSPENDED or not has_work(job) or job.profile.peak_bytes > view.budget_bytes:
        return False
    served_since_ns = min([other.lane_since_ns for other in _may_make_way(job, view)], default=view.now_ns)
    copying_ns = job.profile.persistent_bytes / LINK_BYTES_PER_NS
    enough_ns = max(PATIENCE * job.profile.solo_ns, WORTH_A_COPY * copying_ns)
    return view.now_ns - max(job.since_ns, served_since_ns) > enough_ns


def make_way(view: View) -> tuple[JobView, list[JobView]] | None:
    """The job that has been away longest, if it is overdue, and who leaves for it, the longest on the device first."""
    away = [job for job in view.in_state(JobState.SUSPENDED) if overdue(job, view)]
    if not away:
        return None
    job, leave = min(away, key=lambda job: job.since_ns), list[JobView]()
    for other in [None, *sorted(_may_make_way(job, view), key=lambda other: other.lane_since_ns)]:
        leave += [] if other is None else [other]
        stay = [each.profile for each in view.admitted if each not in leave]
        if room([*stay, job.profile], view.budget_bytes) >= 0:
            return (job, leave) if leave else None
    return None


def _may_make_way(job: JobView, view: View) -> list[JobView]:
    return [other for other in view.admitted if other.deadline_ns is None and other.priority <= job.priority]
