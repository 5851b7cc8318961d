"""Makes room when iterations wait for memory and none of them moves; core.rules.eviction says how.

That happens when an iteration needs more than was expected of it, or when the budget falls. One job at a time is moved
to host memory, until the iteration for which room is made has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.core.control import events as ev
from neaptide.core.control.ledger import Ledger
from neaptide.core.rules.eviction import Evicted, Holder, choose_beneficiary, choose_return, choose_victim
from neaptide.core.rules.patience import EVICTED_NS, STARVING_TICKS, STUCK_TICKS
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.watch.sights import Sight


class Deadlock:
    """`look` is called every tick."""

    def __init__(self, engine: LiveEngine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._evicted_for: dict[AttachedJob, AttachedJob | None] = {}  # the beneficiary; None when it is done

    @property
    def has_evicted(self) -> bool:
        return bool(self._evicted_for)

    def look(self, sights: Sequence[Sight]) -> None:
        """See whether iterations wait for each other, and evict a job if they do."""
        for beneficiary in set(self._evicted_for.values()):
            # An iteration of a suspended or unresponsive job may not end for long.
            if beneficiary is not None and (beneficiary.unresponsive or beneficiary.eviction is EvictionReason.POLICY):
                self.iteration_ended(beneficiary)
        self._restore()
        running = [sight for sight in sights if sight.iterates]
        for sight in running:
            if sight.seen.wanted_bytes and not sight.job.stalled:
                sight.job.stalled = True
                self._engine.post(ev.JobStalled(self._engine.now_ns, sight.job.name))
        if waiting := self._waiting(running):
            self._evict_for(waiting, sights)

    def iteration_ended(self, beneficiary: AttachedJob) -> None:
        """Restore the jobs evicted for this one."""
        for evicted, other in self._evicted_for.items():
            if other is beneficiary:
                self._evicted_for[evicted] = None
        self._restore()

    def gone(self, job: AttachedJob) -> None:
        """The job has ended: restore the jobs evicted for it."""
        self._evicted_for.pop(job, None)
        self.iteration_ended(job)

    def _waiting(self, running: Sequence[Sight]) -> list[Sight]:
        """The iterations that wait and cannot go on by themselves; room is made for one of them.

        Empty while a running iteration or a move may soon free memory.
        """
        waiting = [sight for sight in running if sight.seen.wanted_bytes]
        stuck = len(waiting) == len(running) and all(sight.ticks >= STUCK_TICKS for sight in waiting)
        # An iteration may also starve beside others that go on and give nothing back.
        starving = [sight for sight in waiting if sight.ticks >= STARVING_TICKS]
        # Wait for moves in progress, but not for ever: a move may itself need this memory.
        if self._engine.host_moves.in_progress and all(sight.ticks < STARVING_TICKS for sight in running):
            return []
        return waiting if stuck else starving

    def _evict_for(self, waiting: Sequence[Sight], sights: Sequence[Sight]) -> None:
        holders = [_holder(sight) for sight in sights]
        names = {sight.job.name for sight in waiting}
        beneficiary = choose_beneficiary(holder for holder in holders if holder.job in names)
        victim = None if beneficiary is None else choose_victim(holders, beneficiary.job)
        if beneficiary is None or victim is None:
            return
        job = self._engine.jobs[victim.job]
        self._evicted_for[job] = self._engine.jobs[beneficiary.job]
        if job.arrived:
            self._engine.post(ev.JobEvicted(self._engine.now_ns, job.name))
        self._engine.host_moves.evict(job, EvictionReason.DEADLOCK)

    def _restore(self) -> None:
        while (job := self._next_return()) is not None:
            del self._evicted_for[job]
            self._engine.host_moves.restore(job, EvictionReason.DEADLOCK)

    def _next_return(self) -> AttachedJob | None:
        """The next job to move back: one that fits, or that was away for long because expectations have grown."""
        overdue_ns = self._engine.now_ns - EVICTED_NS
        safe = [job for job, beneficiary in self._evicted_for.items() if beneficiary is None]
        for job in safe:
            if job.profile is None or job.asked_ns <= overdue_ns:
                return job
        evicted = [Evicted(job.name, job.profile, True) for job in safe if job.profile is not None]
        returning = [job.profile for job in self._engine.host_moves.in_progress if _returns(job)]
        on_device = [*self._ledger.admitted_profiles(), *(profile for profile in returning if profile is not None)]
        chosen = choose_return(evicted, on_device, self._ledger.budget_bytes)
        return None if chosen is None else self._engine.jobs[chosen.job]


def _returns(job: AttachedJob) -> bool:
    """Whether the job moves back, and the ledger does not count it among the admitted jobs yet."""
    return job.eviction is None and job.last_eviction in (EvictionReason.DEADLOCK, EvictionReason.MEASURING)


def _holder(sight: Sight) -> Holder:
    job, waits = sight.job, bool(sight.seen.wanted_bytes)
    return Holder(
        job=job.name,
        held_bytes=sight.seen.held_bytes,
        age=sight.seen.age if sight.iterates else None,
        waits=waits,
        held_by_gate=sight.iterates and not job.gate_open and not waits and sight.ticks >= STUCK_TICKS,
        can_move=job.eviction is None and not job.unresponsive,
    )
