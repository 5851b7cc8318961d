"""What the engine in virtual time remembers of each job."""

from __future__ import annotations

from dataclasses import dataclass

from neaptide.core.control.job import Job
from neaptide.core.rules.admission import Together
from neaptide.simulation.columns import PlanColumns


@dataclass(slots=True, eq=False)
class SimulatedJob:
    """A submitted job, and how far it has come."""

    job: Job
    number: int
    plans: tuple[PlanColumns, ...]
    ends: bool  # by itself
    left: int | None  # iterations
    requests_to_come: int
    plan: int = 0
    limit_bytes: int | None = None  # on the device
    waiting: int = 0  # requests
    serving: int = 0
    cap: int | None = None  # on kernels in flight, as the policy asked
    lane: int | None = None
    admitted: bool = False  # on the device, or coming to it
    over: bool = False
    iterations: int = 0  # that have ended
    evicted_for: tuple[SimulatedJob, int] | None = None  # who got its room, and how many iterations that job had done

    @property
    def needs(self) -> Together:
        """What the job needs on the device under its plan and its limit, for admission."""
        plan = self.plans[self.plan]
        ephemeral_bytes = plan.ephemeral_bytes
        if self.limit_bytes is not None:
            ephemeral_bytes = min(ephemeral_bytes, max(self.limit_bytes - plan.persistent_bytes, 0))
        return Together(plan.persistent_bytes, ephemeral_bytes)
