"""Which jobs may hold their persistent bytes: the ledger's rule, read from a view, and an order among those that wait.

The rule: the persistent bytes of all admitted jobs and the largest ephemeral peak of any one of them fit the budget.
"""

from __future__ import annotations

from collections.abc import Iterable

from neaptide.core.control.actions import Action, Admit
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView, View
from neaptide.core.traces.profile import Profile

RESIDENT = (JobState.READY, JobState.RUNNING)


def room(profiles: Iterable[Profile], budget_bytes: int) -> int:
    """Bytes that the rule leaves free beside these jobs; below zero when it is broken."""
    persistent = ephemeral = 0
    for profile in profiles:
        persistent += profile.persistent_bytes
        ephemeral = max(ephemeral, profile.ephemeral_bytes)
    return budget_bytes - persistent - ephemeral


def has_work(job: JobView) -> bool:
    """Whether it would run if it were ready: an inference job only while samples wait or a batch is begun."""
    return job.kind is JobKind.TRAINING or bool(job.requests) or bool(job.serving)


def may_come_in(view: View, waiting: Iterable[JobView]) -> list[JobView]:
    """The waiting jobs to let in now, in their order: none overtakes one that does not fit yet.

    A job that does not even fit alone holds nobody up. A job in host memory counts: it came first.
    """
    waiting, let_in = list(waiting), list[JobView]()
    if not waiting:
        return let_in
    inside = [job.profile for job in view.in_state(*RESIDENT, JobState.SUSPENDED)]
    for job in waiting:
        if job.profile.peak_bytes > view.budget_bytes:
            continue
        if room([*inside, job.profile], view.budget_bytes) < 0:
            break
        inside.append(job.profile)
        let_in.append(job)
    return let_in


def admit_in_turn(view: View) -> tuple[list[Action], list[JobView]]:
    """Admissions in the order of arrival, and all jobs that can then start an iteration."""
    let_in = may_come_in(view, view.queued)
    return [Admit(job.name) for job in let_in], view.startable + [job for job in let_in if has_work(job)]


def too_many(view: View) -> list[JobView]:
    """The jobs that must go to host memory before the rule holds again under a budget that has shrunk.

    Those between two iterations go first, and of these the youngest.
    """
    inside, leave = view.admitted, list[JobView]()
    if sum([job.profile.peak_bytes for job in inside]) <= view.budget_bytes:
        return leave  # far from it
    if room([job.profile for job in inside], view.budget_bytes) >= 0:
        return leave
    inside.sort(key=lambda job: (job.state is JobState.READY, job.arrived_ns))
    while inside and room([job.profile for job in inside], view.budget_bytes) < 0:
        leave.append(inside.pop())
    return leave


def may_come_back(view: View) -> list[JobView]:
    """The jobs in host memory that fit again, longest away first; one that the engine has put there it brings back."""
    back: list[JobView] = []
    if not (away := view.in_state(JobState.SUSPENDED)):
        return back
    inside = [job.profile for job in view.admitted]
    for job in sorted(away, key=lambda job: job.since_ns):
        if room([*inside, job.profile], view.budget_bytes) >= 0:
            inside.append(job.profile)
            if not job.evicted:
                back.append(job)
    return back
