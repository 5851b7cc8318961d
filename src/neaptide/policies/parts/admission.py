"""Which jobs of a view may be on the device together, by the rule of core/rules/admission."""

from __future__ import annotations

from collections.abc import Container, Iterable

from neaptide.core.control.actions import Action, Admit
from neaptide.core.control.job import READY, RUNNING, SUSPENDED, TRAINING
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.admission import keep_places, spare_bytes
from neaptide.core.traces.profile import Profile


def has_work(job: JobView) -> bool:
    """Whether the job would run if it were ready: an inference job only while samples wait or a batch has begun."""
    return job.kind is TRAINING or bool(job.requests) or bool(job.serving)


def expects_work(job: JobView) -> bool:
    """Whether the job should be on the device: it has work, or requests have reached its program."""
    return has_work(job) or bool(job.expected)


def without_claim(job: JobView) -> bool:
    """Whether the job is a server in host memory that has no request: it comes back for its next one.

    Before that it has no place on the device, else it would be moved back and away again for nothing.
    """
    return job.state is SUSPENDED and not job.evicted and not expects_work(job)


def admissible(view: View, waiting: Iterable[JobView]) -> list[JobView]:
    """The waiting jobs to admit now, in their order. No job overtakes one that does not fit yet.

    A job that is larger than the budget is skipped. Suspended jobs with work keep their place: they came first.
    """
    waiting, admitted = list(waiting), list[JobView]()
    if not waiting:
        return admitted
    inside = [job.profile for job in view.in_state(READY, RUNNING, SUSPENDED) if not without_claim(job)]
    for job in waiting:
        if job.profile.peak_bytes > view.budget_bytes:
            continue
        if spare_bytes([*inside, job.profile], view.budget_bytes) < 0:
            break
        inside.append(job.profile)
        admitted.append(job)
    return admitted


def admit_in_order(view: View) -> tuple[list[Action], list[JobView]]:
    """Admissions in the order of arrival, and all jobs that can then start an iteration."""
    admitted = admissible(view, view.queued)
    return [Admit(job.name) for job in admitted], view.startable + [job for job in admitted if has_work(job)]


def over_budget(view: View) -> list[JobView]:
    """The jobs to suspend after a budget cut, so that the rest fit: ready jobs before running ones, youngest first."""
    if view.peaks_bytes <= view.budget_bytes:
        return []  # the usual case: all peaks fit at once
    inside, leave = view.admitted, list[JobView]()
    if spare_bytes([job.profile for job in inside], view.budget_bytes) >= 0:
        return leave
    inside.sort(key=lambda job: (job.state is READY, job.arrived_ns))
    while inside and spare_bytes([job.profile for job in inside], view.budget_bytes) < 0:
        leave.append(inside.pop())
    return leave


def places(view: View, leaving: Container[JobView] = ()) -> list[Profile]:
    """What has a place on the device: the admitted jobs but for those that leave, and evicted ones that fit."""
    here = [job.profile for job in view.admitted if job not in leaving]
    evicted = [job.profile for job in view.suspended if job.evicted] if view.away else []
    return here + keep_places(evicted, here, view.budget_bytes)


def fits_without(leaving: Container[JobView], job: JobView, view: View) -> bool:
    """Whether a job that is away fits on the device once these have left."""
    # One that was evicted goes by its turn: it does not wait for the other evicted jobs.
    there = [each.profile for each in view.admitted if each not in leaving] if job.evicted else places(view, leaving)
    return spare_bytes([*there, job.profile], view.budget_bytes) >= 0


def resumable(view: View) -> list[JobView]:
    """The suspended jobs with work that fit again, longest suspended first; not those that the engine evicted."""
    back: list[JobView] = []
    suspended = [job for job in view.suspended if not job.evicted and not without_claim(job)]
    if not suspended:
        return back
    inside = places(view)
    for job in sorted(suspended, key=lambda job: job.since_ns):
        if spare_bytes([*inside, job.profile], view.budget_bytes) >= 0:
            inside.append(job.profile)
            back.append(job)
    return back
