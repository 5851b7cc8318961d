"""GSLICE (controlled spatial sharing for inference): each server's share of the SMs follows its measured latency.

The rule is recalled from the paper: a server that misses its SLO gets more of the device, and one with time to spare
gives some back. Jobs without a deadline, which GSLICE does not have, divide what the servers leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit
from neaptide.core.control.events import IterationEnded
from neaptide.core.control.policy import Need
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.deadlines import has_deadline
from neaptide.policies.parts.sm_shares import share_out
from neaptide.policies.spatial import Spatial


@dataclass(frozen=True)
class Gslice(Spatial):
    """After each batch a server's share grows by `step` if the batch took longer than the share `high` of its SLO.

    It shrinks by `step` if the batch took less than the share `low`. Servers have at least `least` each; other jobs
    have at least `least` together. Memory is divided as under `spatial`.
    """

    name = "gslice"
    needs = frozenset({Need.SHARES, Need.DEADLINE})
    high: float = 0.9
    low: float = 0.5
    step: float = 0.05
    least: float = 0.05

    def decide(self, view: View) -> Sequence[Action]:
        actions = super().decide(view)
        coming = {action.job for action in actions if isinstance(action, Admit)}
        here = [job for job in view.jobs if job.admitted or job.name in coming]
        servers = [job for job in here if has_deadline(job)]
        others = [job for job in here if not has_deadline(job)]
        shares = {job.name: self._share_of(job, view, len(servers)) for job in servers}
        room = 1.0 - (self.least if others else 0.0)
        if (sum_of := sum(shares.values())) > room:
            shares = {name: share * room / sum_of for name, share in shares.items()}
        rest = (1.0 - sum(shares.values())) / max(len(others), 1) if servers else 1.0
        return [*actions, *share_out((job, shares.get(job.name, rest)) for job in here)]

    def _share_of(self, job: JobView, view: View, servers: int) -> float:
        """Its share from now on; at first the servers divide half of the device."""
        if job.share is None:
            return 0.5 / servers
        event = view.event
        if not isinstance(event, IterationEnded) or event.job != job.name or not event.arrivals_ns:
            return job.share
        assert job.deadline_ns is not None
        took = (event.at_ns - event.arrivals_ns[0]) / job.deadline_ns
        change = self.step * ((took > self.high) - (took < self.low))
        return min(max(job.share + change, self.least), 1.0)
