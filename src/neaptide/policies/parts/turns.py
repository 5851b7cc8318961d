"""Jobs that do not fit on the device together take turns: one that has waited for a turn takes the place of the job
that has been there longest.

A turn is long enough to be worth the moves (core/rules/turns.py). Without this rule a job would wait for ever behind
one that never ends, or two jobs would displace each other all the time.

A server without a request makes way earlier: when it has been idle for as long as its move takes, or for a turn if it
has a deadline. Nothing happens while all servers are idle, so the policy has itself asked again at that time.
"""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.core.control.actions import Action, Admit, Resume, Suspend, WakeAt
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.admission import spare_bytes
from neaptide.policies.parts.admission import expects_work, is_idle


def endless(job: JobView) -> bool:
    """Whether a training job did not say how long it is, so that no other job can wait for its end."""
    return job.kind is JobKind.TRAINING and job.iterations_left is None


def turn_is_over(job: JobView, waiting: JobView, now_ns: int) -> bool:
    """Whether the job has had a turn while the other waited, or is idle for long enough."""
    return now_ns > _turn_ends_ns(job, waiting)


def overdue(job: JobView, view: View, equals: bool = False) -> bool:
    """Whether the job has waited for a turn of a job that may leave for it; if `equals`, of one of its priority.

    A job that was never admitted queues behind jobs that will end. Idle servers of every priority may leave.
    """
    return any(turn_is_over(other, job, view.now_ns) for other in _may_leave(job, view, equals))


def has_claim(job: JobView, view: View) -> bool:
    """Whether the job wants a place on the device; not if it is a server without a request that was suspended, or that
    makes way now.
    """
    if job.state is JobState.SUSPENDED:
        return expects_work(job)
    return not (is_idle(job) and any(turn_is_over(job, other, view.now_ns) for other in _waiting_for(job, view)))


def overdue_swap(view: View) -> tuple[JobView, list[JobView]] | None:
    """The overdue job that has waited longest, and the jobs to suspend for it: idle ones first, then longest here."""
    waiting = [job for job in view.in_state(JobState.SUSPENDED, JobState.QUEUED) if overdue(job, view)]
    if not waiting:
        return None
    job, leave = min(waiting, key=lambda job: job.since_ns), list[JobView]()
    others = sorted(_may_leave(job, view), key=lambda other: (not is_idle(other), other.lane_since_ns))
    for other in [None, *others]:
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


def asked_again(actions: Sequence[Action], view: View) -> list[Action]:
    """The actions, and a WakeAt for when an idle server makes way, unless the policy is asked before that."""
    waiting = view.in_state(JobState.SUSPENDED, JobState.QUEUED)
    if not waiting:  # the usual case
        return list(actions)
    idle = [(other, job) for job in waiting for other in _may_leave(job, view) if is_idle(other)]
    ends_ns = [int(_turn_ends_ns(other, job)) + 1 for other, job in idle]
    wakes_ns = [action.at_ns for action in actions if isinstance(action, WakeAt)]
    wake_ns = min([*wakes_ns, *(end_ns for end_ns in ends_ns if end_ns > view.now_ns)], default=None)
    rest = [action for action in actions if not isinstance(action, WakeAt)]
    return rest if wake_ns is None else [*rest, WakeAt(wake_ns)]


def _may_leave(job: JobView, view: View, equals: bool = False) -> list[JobView]:
    """The jobs on the device that leave for this one when their turn is over; none if the job does not wait."""
    if job.state not in (JobState.SUSPENDED, JobState.QUEUED):
        return []
    if not expects_work(job) or job.profile.peak_bytes > view.budget_bytes:
        return []
    others = [other for other in view.admitted if other.deadline_ns is None or is_idle(other)]
    if job.state is JobState.QUEUED:
        others = [other for other in others if never_ends(other)]
    return [other for other in others if other.priority == job.priority or is_idle(other)] if equals else others


def _waiting_for(job: JobView, view: View) -> list[JobView]:
    return [other for other in view.in_state(JobState.SUSPENDED, JobState.QUEUED) if job in _may_leave(other, view)]


def never_ends(job: JobView) -> bool:
    """Whether no other job can wait for its end: it serves, or did not say how long it trains."""
    return job.kind is JobKind.INFERENCE or endless(job)


def _turn_ends_ns(job: JobView, waiting: JobView) -> float:
    since_ns = max(waiting.since_ns, job.lane_since_ns)
    turn_ends_ns = since_ns + max(job.turn_ns, waiting.turn_ns)
    if not is_idle(job):
        return turn_ends_ns
    if job.deadline_ns is not None:  # it would miss the deadline of its next request
        return max(turn_ends_ns, job.since_ns + job.turn_ns)
    return min(turn_ends_ns, job.since_ns + job.idle_ns)
