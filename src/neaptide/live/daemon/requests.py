"""Requests to jobs that serve.

A request is known from when it reaches the program, if the program's server announces it; otherwise the call of the
model is the request. A job off the device whose server announces nothing cannot call its model, because it can copy
nothing to the device. One request is assumed on its behalf when its program waits to do so, so that the policy brings
it back. A server whose program does not wait is idle, and nobody makes way for it.
"""

from __future__ import annotations

from neaptide.core.control import events as ev
from neaptide.core.control.ledger import Ledger
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.protocol import messages as say
from neaptide.live.protocol.messages import ProtocolError

MOST_WAITING = 1 << 18  # samples of one job


class Requests:
    """Posts the requests that jobs announce, and those that are assumed."""

    def __init__(self, engine: LiveEngine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger

    def arrived(self, job: AttachedJob) -> None:
        """A job calls its model for a request that it did not announce."""
        if job.request_assumed:  # this is the one that was posted already
            job.request_assumed = False
        elif job.arrived:
            self._post(job)

    def expected(self, job: AttachedJob, message: say.RequestExpected) -> None:
        """A request has reached the job's program."""
        if job.arrived:
            self._announce(job, message.request, message.waited_ns, message.deadline_ns, expected=True)

    def called(self, job: AttachedJob, message: say.RequestCalled) -> None:
        """The job calls its model for a request."""
        if not job.arrived:
            return
        assumed, job.request_assumed = job.request_assumed, False
        if message.request not in job.open_requests:
            # If it joins, or another stands for it already, no iteration of its own is to come.
            expected = message.joins or assumed
            self._announce(job, message.request, message.waited_ns, message.deadline_ns, expected)
            if not expected:
                return
        arrived_ns = job.open_requests[message.request]
        self._engine.post(ev.RequestCalled(self._engine.now_ns, job.name, arrived_ns, message.joins or assumed))

    def answered(self, job: AttachedJob, message: say.RequestAnswered) -> None:
        """The job has answered a request; one of which an earlier daemon knew is not counted."""
        arrived_ns = job.open_requests.pop(message.request, None)
        if arrived_ns is not None:
            self._engine.post(ev.RequestAnswered(self._engine.now_ns, job.name, arrived_ns, message.took_ns))

    def withdrawn(self, job: AttachedJob) -> None:
        """The job's last call of its model launched nothing: a permit for it is taken back."""
        if not job.arrived:
            return
        if job.running and not self._engine.take_back_permit(job):
            job.request_assumed = True  # the next call has used the permit, and is to say so
            return
        job.request_assumed = False
        self._engine.post(ev.CallWithdrawn(self._engine.now_ns, job.name))

    def assume(self) -> None:
        """Assume a request for each job off the device whose program waits for the device without one.

        Also for one that the daemon evicted: others may have its place by now, and idle servers make way for work only.
        """
        for job in self._engine.jobs.values():
            if job.trains or not job.arrived or job.request_assumed or job.unresponsive:
                continue
            if (job.eviction is not None) is self._engine.host_moves.awaits(job):
                continue  # it is on the device, or has not left it yet
            account = self._ledger.account(job.name)
            if account.requests or account.expected or account.serving:
                continue
            if self._engine.board.progress(job.slot).waits_since_ns:
                job.request_assumed = True
                self._post(job)

    def _announce(
        self, job: AttachedJob, request: int, waited_ns: int, deadline_ns: int | None, expected: bool
    ) -> None:
        if len(job.open_requests) >= MOST_WAITING:
            raise ProtocolError(f"more than {MOST_WAITING} requests wait")
        now_ns, deadline_seconds = self._engine.now_ns, job.hello.deadline_seconds
        arrived_ns = now_ns - waited_ns
        if deadline_ns is not None and deadline_seconds is not None:
            arrived_ns += deadline_ns - round(deadline_seconds * 1e9)
        arrived_ns = job.open_requests[request] = max(arrived_ns, 0)
        self._engine.post(ev.RequestArrived(now_ns, job.name, arrived_ns=arrived_ns, expected=expected, tracked=True))

    def _post(self, job: AttachedJob) -> None:
        count = 1 if job.profile is None else job.profile.batch  # one call of the model is a whole batch
        if len(self._ledger.account(job.name).requests) + count > MOST_WAITING:
            raise ProtocolError(f"more than {MOST_WAITING} samples wait")
        self._engine.post(ev.RequestArrived(self._engine.now_ns, job.name, count))
