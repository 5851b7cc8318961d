"""All jobs at once, as under NVIDIA's MPS: jobs do not share memory over time.

Each job has a fixed part of the budget (`spatial`), or the device pages (`spatial-paged`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Start
from neaptide.core.control.job import READY, RUNNING, SUSPENDED
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import has_work


@dataclass(frozen=True)
class Spatial(Policy):
    """A static partition: each admitted job has a ceiling, and the ceilings together are within the budget.

    With `parts`, the budget is divided into that many equal parts, and a job that needs more than its part fails.
    Without, a job's part is its own peak. Jobs are admitted in the order of arrival; one that is larger than the budget
    is skipped.
    """

    name = "spatial"
    parts: int | None = None

    def decide(self, view: View) -> Sequence[Action]:
        inside = view.in_state(READY, RUNNING, SUSPENDED)
        left = view.budget_bytes - sum(self._part(job, view) for job in inside)
        actions: list[Action] = []
        ready = view.startable
        for job in view.queued:
            part = self._part(job, view)
            if part > view.budget_bytes:
                continue
            if part > left:
                break
            left -= part
            actions.append(Admit(job.name, ceiling_bytes=part))
            ready += [job] if has_work(job) else []
        return actions + [Start(job.name) for job in ready]

    def _part(self, job: JobView, view: View) -> int:
        return job.profile.peak_bytes if self.parts is None else view.budget_bytes // self.parts


@dataclass(frozen=True)
class SpatialPaged(Policy):
    """Starts all jobs and gives out more memory than there is: the device pages, and is slow meanwhile."""

    name = "spatial-paged"
    oversubscribes = True

    def decide(self, view: View) -> Sequence[Action]:
        admissions = [Admit(job.name) for job in view.queued]
        return admissions + [Start(job.name) for job in view.startable + [j for j in view.queued if has_work(j)]]
