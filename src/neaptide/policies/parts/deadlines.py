"""What the device does for jobs with a deadline: their ops go first, and other jobs launch little ahead of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from neaptide.core.control.actions import Action, CapInFlight, SetClass
from neaptide.core.control.job import INFERENCE
from neaptide.core.control.view import JobView
from neaptide.core.rules.in_flight import DEFAULT_IN_FLIGHT, IN_FLIGHT_NS
from neaptide.core.traces.profile import Profile


def has_deadline(job: JobView) -> bool:
    """Whether the job serves requests within an SLO."""
    return job.kind is INFERENCE and job.deadline_ns is not None


def put_first(jobs: Iterable[JobView]) -> list[Action]:
    """Puts the jobs with a deadline into the deadline class; they must be on the device or come to it."""
    return [SetClass(job.name, True) for job in jobs if not job.in_deadline_class]


def bound_in_flight(jobs: Iterable[JobView], attached: bool) -> list[Action]:
    """Bounds the time that kernels launched ahead by best-effort jobs take, while a job with a deadline is attached."""
    wanted = ((job, kernels_ahead(job) if attached else None) for job in jobs if job.admitted)
    return [CapInFlight(job.name, cap) for job, cap in wanted if job.in_flight != cap]


def kernels_ahead(job: JobView) -> int | None:
    """The job's cap beside a job with a deadline; None if the default cap is low enough."""
    return _kernels_ahead(job.profile)


@lru_cache(maxsize=1024)
def _kernels_ahead(profile: Profile) -> int | None:
    cap = profile.kernels_within(max(IN_FLIGHT_NS, profile.longest_ns))
    return None if cap >= DEFAULT_IN_FLIGHT else cap
