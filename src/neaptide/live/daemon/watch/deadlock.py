"""Makes room when iterations wait for memory and none of them moves; core.rules.eviction says how.

That happens when an iteration needs more than was expected of it, or when the budget falls. One job at a time is moved
to host memory, until the iteration for which room is made has ended. If the jobs should have fitted, more is expected
of them from then on (JobGrew), so that they are not brought together in too little memory again and again.

A job with a part of the memory may wait only for itself, at its ceiling. Then its part grows.

A job is also moved when a lower budget was set and more than that stays leased, even if the job is alone. It returns
when it fits: the process waits for the leases in host memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.core.control import events as ev
from neaptide.core.control.ledger import Ledger
from neaptide.core.rules.admission import spare_bytes
from neaptide.core.rules.eviction import Evicted, Holder, choose_beneficiary, choose_return, choose_victim
from neaptide.core.rules.patience import (
    EVICTED_NS,
    EVICTED_TURNS,
    OVER_BUDGET_TICKS,
    STARVING_TICKS,
    STUCK_TICKS,
    hanging_ns,
    iteration_ticks,
)
from neaptide.devices.board.figures import NO_ITERATION
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.watch.sights import Sight

_STEP = 16  # the part of its peak by which more is expected of a job when nothing shows how much it lacked


class Deadlock:
    """`look` is called every tick."""

    def __init__(self, engine: LiveEngine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._evicted_for: dict[AttachedJob, AttachedJob | None] = {}  # the beneficiary; None when it is done
        self._over_ticks = 0  # looks since when more is leased than the budget

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
        self._raise_ceilings(running)
        grown = self._grow_lanes(sights)
        if not grown and (waiting := self._waiting(running)):  # first the policy may size lanes anew
            self._evict_for(waiting, sights)
        self._keep_budget(sights)

    def _grow_lanes(self, sights: Sequence[Sight]) -> bool:
        """Expect of each job that waits for memory because of lanes what it needs: the policy sizes the lanes anew.

        An iteration may need more than its lane has, or a job outside iterations more than lanes leave. Returns whether
        more is expected of any job now.
        """
        grown = False
        for sight in sights if self._ledger.lanes else ():
            lane, seen = sight.job.lane, sight.seen
            if not seen.wanted_bytes or sight.ticks < STUCK_TICKS or self._moves(sight.job):
                continue
            peak_bytes = seen.held_bytes + seen.wanted_bytes
            if not sight.iterates:
                grown |= self._grow(sight.job, peak_bytes, peak_bytes)
            elif lane is not None and 0 < self._ledger.lanes.get(lane, 0) < peak_bytes - seen.rest_bytes:
                grown |= self._grow(sight.job, peak_bytes, 0)
        return grown

    def _raise_ceilings(self, running: Sequence[Sight]) -> None:
        """Let a job that stands still at its ceiling hold as much again as an iteration was measured to need.

        It waits for nobody but itself: calls on several threads each hold a part of what they need. More is expected of
        it from then on, so that no other job is admitted to that memory.
        """
        for sight in running:
            job, seen = sight.job, sight.seen
            if job.ceiling_bytes is None or job.profile is None or sight.ticks < STUCK_TICKS or self._moves(job):
                continue
            waits_for_itself = seen.waits_since_ns and not seen.wanted_bytes and seen.launched == seen.done
            if waits_for_itself:
                more_bytes = max(job.profile.ephemeral_bytes, self._engine.board.chunk_bytes)
                self._engine.set_ceiling(job, job.ceiling_bytes + more_bytes)
                self._grow(job, seen.held_bytes + more_bytes, 0)

    @property
    def over_budget(self) -> bool:
        """Whether jobs hold more than the budget, which was lowered. Changes nothing."""
        seen = self._engine.board.snapshot()
        return seen.used_bytes > seen.capacity_bytes

    def _keep_budget(self, sights: Sequence[Sight]) -> None:
        self._over_ticks = self._over_ticks + 1 if self.over_budget else 0
        if self._over_ticks < OVER_BUDGET_TICKS or self._engine.host_moves.in_progress:
            return
        holders = [holder(sight, self._engine.now_ns) for sight in sights]
        if (victim := choose_victim(holders, beneficiary=None)) is not None:
            job = self._engine.jobs[victim.job]
            self._note_eviction(job, None)
            self._engine.host_moves.evict(job, EvictionReason.DEADLOCK)

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
        computing = [sight for sight in waiting if self._computes(sight)]
        stuck = len(waiting) == len(running) and all(sight.ticks >= STUCK_TICKS for sight in waiting)
        stuck = stuck and not computing
        # An iteration may also starve beside younger ones that go on and give nothing back. Older ones it waits for.
        others = [sight for sight in running if sight not in waiting]
        others = [sight for sight in others if sight.ticks < STARVING_TICKS or self._computes(sight)]
        going_on = [*others, *computing]
        patience_ticks = max([STARVING_TICKS, *[self._ticks_to_end(sight) for sight in going_on]])
        still = [sight for sight in waiting if sight.ticks >= patience_ticks and sight not in computing]
        oldest = min([sight.seen.age for sight in going_on], default=NO_ITERATION)
        starving = [sight for sight in still if sight.seen.age < oldest]
        # Wait for moves in progress, but not for ever: a move may itself need this memory.
        if self._engine.host_moves.in_progress and all(sight.ticks < STARVING_TICKS for sight in running):
            return []
        return waiting if stuck else starving

    def _computes(self, sight: Sight) -> bool:
        """Whether kernels of an iteration are on the device: memory may come free by itself when they end."""
        job, seen = sight.job, sight.seen
        if seen.launched <= seen.done or not job.gate_open:
            return False
        return sight.still_ns(self._engine.now_ns) < hanging_ns(0 if job.profile is None else job.profile.solo_ns)

    def _ticks_to_end(self, sight: Sight) -> int:
        """How many looks an iteration that goes on may take until it ends, and gives its memory back."""
        account = self._ledger.account(sight.job.name)
        return iteration_ticks(account.profile.solo_ns, account.recent_ns)

    def _evict_for(self, waiting: Sequence[Sight], sights: Sequence[Sight]) -> None:
        holders = [holder(sight, self._engine.now_ns) for sight in sights]
        names = {sight.job.name for sight in waiting}
        # A new job may hold what the ledger promises to others: they take turns with it.
        new = any(job.is_new for job in self._engine.jobs.values())
        should_fit = not new and spare_bytes(self._ledger.admitted_profiles(), self._ledger.budget_bytes) >= 0
        while (beneficiary := choose_beneficiary(each for each in holders if each.job in names)) is not None:
            if (victim := choose_victim(holders, beneficiary.job)) is not None:
                job, benefits = self._engine.jobs[victim.job], self._engine.jobs[beneficiary.job]
                self._note_eviction(job, benefits)
                if should_fit and not victim.held_by_gate:
                    self._expect_more(benefits, sights)
                self._engine.host_moves.evict(job, EvictionReason.DEADLOCK)
                return
            names.remove(beneficiary.job)  # no other job can move, so perhaps this one can

    def _note_eviction(self, job: AttachedJob, beneficiary: AttachedJob | None) -> None:
        self._evicted_for[job] = beneficiary
        if job.arrived:
            self._engine.post(ev.JobEvicted(self._engine.now_ns, job.name))

    def _expect_more(self, beneficiary: AttachedJob, sights: Sequence[Sight]) -> None:
        """Expect of each job what it holds and asks for now; if that explains nothing, more of the beneficiary."""
        still = [sight for sight in sights if sight.ticks >= STUCK_TICKS and not self._moves(sight.job)]
        grown = [self._grow(sight.job, *_needs(sight)) for sight in still]
        if not any(grown) and beneficiary.profile is not None:
            peak_bytes = beneficiary.profile.peak_bytes
            self._grow(beneficiary, peak_bytes + max(peak_bytes // _STEP, 1), 0)

    def _moves(self, job: AttachedJob) -> bool:
        """Whether what the job holds does not show what it needs, because its bytes are in host memory or move."""
        return job.eviction is not None or job.unresponsive or self._engine.host_moves.awaits(job)

    def _grow(self, job: AttachedJob, peak_bytes: int, rest_bytes: int) -> bool:
        """Expect this much of the job, but no more than the whole budget. Returns whether that is more than before."""
        if job.profile is None:
            return False
        most_bytes = max(self._ledger.budget_bytes, job.profile.peak_bytes)
        grown = job.profile.grown_to(min(peak_bytes, most_bytes), min(rest_bytes, most_bytes))
        if (grown.peak_bytes, grown.persistent_bytes) == (job.profile.peak_bytes, job.profile.persistent_bytes):
            return False
        job.profile = grown
        at_ns = self._engine.now_ns
        self._engine.post(ev.JobGrew(at_ns, job.name, grown.peak_bytes, grown.persistent_bytes))
        return True

    def _restore(self) -> None:
        while (job := self._next_return()) is not None:
            del self._evicted_for[job]
            self._engine.host_moves.restore(job, EvictionReason.DEADLOCK)

    def _next_return(self) -> AttachedJob | None:
        """The next job to move back: one that fits, or that the policy lets wait for long although it does not fit.

        Nothing is known of a new job, so it returns at once, and its process waits until it is granted its memory.
        """
        safe = [job for job, beneficiary in self._evicted_for.items() if beneficiary is None]
        if not safe:
            return None
        for job in safe:
            if job.profile is None or self._engine.now_ns - job.asked_ns >= self._longest_ns():
                return job
        evicted = [Evicted(job.name, job.profile, True) for job in safe if job.profile is not None]
        returning = [job.profile for job in self._engine.host_moves.in_progress if _returns(job)]
        on_device = [*self._ledger.admitted_profiles(), *(profile for profile in returning if profile is not None)]
        chosen = choose_return(evicted, on_device, self._ledger.budget_bytes)
        return None if chosen is None else self._engine.jobs[chosen.job]

    def _longest_ns(self) -> float:
        accounts = [self._ledger.account(job.name) for job in self._engine.jobs.values() if job.arrived]
        return max([EVICTED_NS, *(EVICTED_TURNS * account.turn_ns for account in accounts)])


def _returns(job: AttachedJob) -> bool:
    """Whether the job moves back, and the ledger does not count it among the admitted jobs yet."""
    return job.eviction is None and job.last_eviction in (EvictionReason.DEADLOCK, EvictionReason.NEWCOMER)


def _needs(sight: Sight) -> tuple[int, int]:
    """The peak and the bytes at rest of a job, as far as they can be seen now."""
    held_bytes = sight.seen.held_bytes
    return held_bytes + sight.seen.wanted_bytes, 0 if sight.iterates else held_bytes


def holder(sight: Sight, now_ns: int) -> Holder:
    """A job as the choice of a victim sees it."""
    job, waits = sight.job, bool(sight.seen.wanted_bytes)
    return Holder(
        job=job.name,
        held_bytes=sight.seen.held_bytes,
        age=sight.seen.age if sight.iterates else None,
        waits=waits,
        held_by_gate=sight.iterates and not job.gate_open and not waits and sight.ticks >= STUCK_TICKS,
        can_move=job.can_move(now_ns),
    )
