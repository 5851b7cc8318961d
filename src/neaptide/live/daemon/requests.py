"""Requests to jobs that serve, as policies are told of them."""

from __future__ import annotations

from neaptide.core.control import events as ev
from neaptide.core.control.ledger import Ledger
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason
from neaptide.live.daemon.engine import LiveEngine


class Requests:
    """Tells of what jobs say, and of what one in host memory cannot say: it can copy no request to the device."""

    def __init__(self, engine: LiveEngine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger

    def arrived(self, resident: AttachedJob) -> None:
        """A job has said so."""
        if resident.presumed:  # this is the one that was told of
            resident.presumed = False
        elif resident.arrived:
            self._tell(resident)

    def presume(self) -> None:
        """Have jobs brought back that a policy has suspended, and that may wait with a request."""
        for resident in self._engine.residents.values():
            if resident.trains or resident.presumed or resident.away is not EvictionReason.POLICY:
                continue
            account = self._ledger.account(resident.name)
            if not (self._engine.residence.awaits(resident) or account.requests or account.serving):
                resident.presumed = True
                self._tell(resident)

    def _tell(self, resident: AttachedJob) -> None:
        for _ in range(1 if resident.profile is None else resident.profile.batch):  # a call is a whole batch
            self._engine.post(ev.RequestArrived(self._engine.now_ns, resident.name))
