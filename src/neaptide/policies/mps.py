"""NVIDIA's MPS with a limit on the SMs of each client (active thread percentage): all jobs at once, memory divided.

The percentage is a setting of whoever runs the device, fixed while a client lives; nothing adapts it. The Herald paper
tuned it by hand until the SLO was kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit
from neaptide.core.control.policy import Need
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.deadlines import has_deadline
from neaptide.policies.parts.sm_shares import share_out
from neaptide.policies.spatial import Spatial


@dataclass(frozen=True)
class Mps(Spatial):
    """A job with a deadline may use the share `deadline` of the SMs, any other the share `best_effort`.

    Shares may add up to more than the device, as under MPS. Memory is divided as under `spatial`.
    """

    name = "mps"
    needs = frozenset({Need.SHARES})
    best_effort: float = 0.5
    deadline: float = 1.0

    def decide(self, view: View) -> Sequence[Action]:
        actions = super().decide(view)
        coming = {action.job for action in actions if isinstance(action, Admit)}
        here = [job for job in view.jobs if job.admitted or job.name in coming]
        return [*actions, *share_out((job, self._share_of(job)) for job in here)]

    def _share_of(self, job: JobView) -> float:
        return self.deadline if has_deadline(job) else self.best_effort
