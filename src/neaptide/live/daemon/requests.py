"""Requests to jobs that serve.

A suspended job cannot announce a request, because it can copy none to the device. One request is assumed on its behalf,
so that the policy brings it back.
"""

from __future__ import annotations

from neaptide.core.control import events as ev
from neaptide.core.control.ledger import Ledger
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason
from neaptide.live.daemon.engine import LiveEngine


class Requests:
    """Posts the requests that jobs announce, and those that are assumed."""

    def __init__(self, engine: LiveEngine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger

    def arrived(self, job: AttachedJob) -> None:
        """A job announces a request."""
        if job.request_assumed:  # this is the one that was posted already
            job.request_assumed = False
        elif job.arrived:
            self._post(job)

    def assume(self) -> None:
        """Assume a request for each suspended job that may wait with one."""
        for job in self._engine.jobs.values():
            if job.trains or job.request_assumed or job.eviction is not EvictionReason.POLICY:
                continue
            account = self._ledger.account(job.name)
            if not (self._engine.host_moves.awaits(job) or account.requests or account.serving):
                job.request_assumed = True
                self._post(job)

    def _post(self, job: AttachedJob) -> None:
        for _ in range(1 if job.profile is None else job.profile.batch):  # one call of the model is a whole batch
            self._engine.post(ev.RequestArrived(self._engine.now_ns, job.name))
