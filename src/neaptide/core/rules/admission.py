"""Which jobs may be on the device together: the rule that the ledger enforces and policies plan with.

The persistent bytes of all admitted jobs, and beside them the ephemeral peak of any one of them, fit the budget (the
safety condition of Salus for a single lane). Engines grant an iteration memory only if all older iterations can still
end (memory_grant.h), so under this rule every iteration that is started also ends. Where a device leases chunks, leased
bytes are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Demand(Protocol):
    """What a job needs. A Profile is one."""

    @property
    def persistent_bytes(self) -> int:
        """Bytes held between iterations."""

    @property
    def ephemeral_bytes(self) -> int:
        """Bytes held on top of the persistent ones at the peak of an iteration."""


def spare_bytes(admitted: Iterable[Demand], budget_bytes: int) -> int:
    """Bytes of the budget that the rule leaves free beside these jobs; below zero when they do not fit together."""
    persistent = ephemeral = 0
    for job in admitted:
        persistent += job.persistent_bytes
        ephemeral = max(ephemeral, job.ephemeral_bytes)
    return budget_bytes - persistent - ephemeral
