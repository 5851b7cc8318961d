"""Which jobs may be on the device together: the rule that the ledger enforces and policies plan with.

The persistent bytes of all admitted jobs, and beside them the ephemeral peak of any one of them, fit the budget (the
safety condition of Salus for a single lane). Engines grant an iteration memory only if all older iterations can still
end (memory_grant.h), so under this rule every iteration that is started also ends. Where a device leases chunks, leased
bytes are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar


class Demand(Protocol):
    """What a job needs. A Profile is one."""

    @property
    def persistent_bytes(self) -> int:
        """Bytes held between iterations."""

    @property
    def ephemeral_bytes(self) -> int:
        """Bytes held on top of the persistent ones at the peak of an iteration."""


_Demand = TypeVar("_Demand", bound=Demand)


@dataclass(slots=True)
class Together:
    """Jobs on the device, counted one by one: a policy that tries many jobs adds up each of them once."""

    persistent_bytes: int = 0
    ephemeral_bytes: int = 0  # of the job with the largest peak

    def add(self, job: Demand) -> None:
        """Count one more job."""
        self.persistent_bytes += job.persistent_bytes
        self.ephemeral_bytes = max(self.ephemeral_bytes, job.ephemeral_bytes)

    def fits_with(self, job: Demand, budget_bytes: int) -> bool:
        """Whether the rule holds with one more job. Changes nothing."""
        peak = max(self.ephemeral_bytes, job.ephemeral_bytes)
        return self.persistent_bytes + job.persistent_bytes + peak <= budget_bytes


def keep_places(evicted: Iterable[_Demand], here: Iterable[Demand], budget_bytes: int) -> list[_Demand]:
    """Those of the evicted jobs that fit beside the ones on the device: the engine restores them soon.

    Their room is given to no other job.
    """
    kept, together = list[_Demand](), Together()
    for job in here:
        together.add(job)
    for job in evicted:
        if together.fits_with(job, budget_bytes):
            together.add(job)
            kept.append(job)
    return kept


def spare_bytes(admitted: Iterable[Demand], budget_bytes: int) -> int:
    """Bytes of the budget that the rule leaves free beside these jobs; below zero when they do not fit together."""
    together = Together()
    for job in admitted:
        together.add(job)
    return budget_bytes - together.persistent_bytes - together.ephemeral_bytes
