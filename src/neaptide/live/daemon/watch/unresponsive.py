"""Finds jobs whose processes are stopped or hang, and notices when they go on.

An unresponsive job is hidden from policies until it reports again. It gets no permits, and its bytes are taken off the
budget, because no other job can have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from neaptide.core.control import events as ev
from neaptide.core.control.ledger import Ledger
from neaptide.core.rules.patience import STOPPED_NS, UNUSED_PERMIT_NS, hanging_ns
from neaptide.devices.board import BoardError, SlotState
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.permits import on_device
from neaptide.live.daemon.watch.sights import Sight


class Unresponsive:
    """`look` is called every tick. `budget_changed` is called when bytes are lost to other jobs or come back."""

    def __init__(self, engine: LiveEngine, ledger: Ledger, budget_changed: Callable[[], None]) -> None:
        self._engine = engine
        self._ledger = ledger
        self._budget_changed = budget_changed

    def look(self, sights: Sequence[Sight]) -> None:
        """See which jobs have stopped or hang, and which go on."""
        for sight in sights:
            job = sight.job
            if job.unresponsive:
                if self._goes_on(sight):
                    self.returned(job)
            elif job.arrived and job.running and job.eviction is None:
                if self._hangs(sight):
                    self._hide(job)
            elif self._awaited(job) and self._is_stopped_since(sight, job.asked_ns):
                self._lose(job)

    def returned(self, job: AttachedJob) -> None:
        """The job responds again."""
        job.unresponsive = False
        self._engine.permits.give(job)
        if job.arrived and self._ledger.account(job.name).unresponsive:
            self._engine.post(ev.JobResumed(self._engine.now_ns, job.name))
        self._budget_changed()

    def _hangs(self, sight: Sight) -> bool:
        """Whether a job that is to run an iteration does not."""
        job, iterates = sight.job, on_device(sight.job, sight.seen)
        if not job.gate_open or self._still_ns(sight, job.permitted_ns) < STOPPED_NS:
            return False
        if self._engine.is_stopped(job):
            return True
        if sight.seen.wanted_bytes or self._makes_way(job):
            return False
        solo_ns = 0 if job.profile is None else job.profile.solo_ns
        return self._still_ns(sight, job.permitted_ns) >= (hanging_ns(solo_ns) if iterates else UNUSED_PERMIT_NS)

    def _makes_way(self, job: AttachedJob) -> bool:
        """Whether its kernels may wait on the device: for those of a deadline job, or to keep to the job's share."""
        deadline = any(other.in_deadline_class and other.running for other in self._engine.jobs.values())
        return job.share is not None or (deadline and not job.in_deadline_class)

    def _goes_on(self, sight: Sight) -> bool:
        job, seen = sight.job, sight.seen
        if self._engine.is_stopped(job):
            return False
        waits_for_permit = seen.state is SlotState.WAITING_PERMIT and not on_device(job, seen)
        return bool(seen.wanted_bytes) or waits_for_permit or sight.looks == 0 or self._awaited(job)

    def _awaited(self, job: AttachedJob) -> bool:
        """Whether the job is new, or is to move its bytes."""
        return not job.arrived or self._engine.host_moves.awaits(job)

    def _is_stopped_since(self, sight: Sight, asked_ns: int) -> bool:
        return self._still_ns(sight, asked_ns) >= STOPPED_NS and self._engine.is_stopped(sight.job)

    def _still_ns(self, sight: Sight, asked_ns: int) -> int:
        """How long nothing has moved since the job was asked to do something."""
        return sight.still_ns(self._engine.now_ns, asked_ns)

    def _hide(self, job: AttachedJob) -> None:
        self._engine.permits.close(job)
        with suppress(BoardError):  # its process has just died
            self._engine.board.forget_expected_leases(job.slot)
        self._lose(job)

    def _lose(self, job: AttachedJob) -> None:
        job.unresponsive = True
        if job.arrived:  # else a policy would wait for it
            self._engine.post(ev.JobEvicted(self._engine.now_ns, job.name, unresponsive=True))
        self._budget_changed()
