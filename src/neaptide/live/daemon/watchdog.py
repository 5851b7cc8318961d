"""Looks at the board now and then while jobs share the device, for what no event tells.

Every running iteration waits for memory and none moves (a misprediction), or one waits for long: the youngest
goes to host memory until the oldest has ended. A job that is stopped, or does not come along: its iteration counts no
more, its bytes do. So do those of a stopped newcomer, and of a stopped job that was asked to go or come.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from neaptide.core.control import events as ev
from neaptide.core.control.ledger import Ledger
from neaptide.devices.board import BoardError, Progress, SlotState
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason
from neaptide.live.daemon.engine import LiveEngine, on_device

TICK_SECONDS = 0.05
_STOPPED_NS = 300_000_000
_UNUSED_NS = 1_000_000_000  # a permit that no iteration has begun with
_STARVING_TICKS = 20
_HANGS_NS = 5_000_000_000
_HANGS_ITERATIONS = 5  # or so many times what one takes alone, if that is longer


@dataclass(slots=True)
class _Sight:
    """What was last seen of a running iteration."""

    state: tuple[int, int, int, int]  # iteration, launched, done, held
    since_ns: int
    ticks: int = 0  # that nothing has moved since


class Watchdog:
    """`look` is called every tick. `absence_changed` is told when bytes can or cannot be counted on."""

    def __init__(self, engine: LiveEngine, ledger: Ledger, absence_changed: Callable[[], None]) -> None:
        self._engine = engine
        self._ledger = ledger
        self._absence_changed = absence_changed
        self._sights: dict[AttachedJob, _Sight] = {}
        self._makes_way_for: dict[AttachedJob, AttachedJob] = {}  # who was evicted, and for whom

    def look(self) -> None:
        """One tick."""
        engine, now_ns = self._engine, self._engine.now_ns
        running: list[tuple[AttachedJob, Progress, _Sight]] = []
        residents = list(engine.residents.values())
        for resident in residents:
            seen = engine.board.progress(resident.slot)
            sight = self._see(resident, seen, now_ns)
            if resident.unresponsive:
                self._look_for_return(resident, seen, sight)
            elif resident.arrived and resident.running and resident.away is None:
                if begun := on_device(resident, seen):
                    running.append((resident, seen, sight))
                if begun or not engine.holding:  # a permit that is held back cannot be used
                    self._look_for_absence(resident, seen, sight, now_ns)
            elif self._waited_for(resident):
                self._look_for_stop(resident, sight, now_ns)
        self._sights = {resident: self._sights[resident] for resident in residents}
        for oldest in set(self._makes_way_for.values()):
            if oldest.unresponsive or oldest.away is EvictionReason.POLICY:  # its iteration may not end for long
                self._bring_back(oldest)
        self._look_for_deadlock([each for each in running if not each[0].unresponsive])

    def iteration_ended(self, resident: AttachedJob) -> None:
        """Whoever made way for it comes back."""
        self._bring_back(resident)

    def gone(self, resident: AttachedJob) -> None:
        """The job is no more."""
        self._makes_way_for.pop(resident, None)
        self._bring_back(resident)

    def _bring_back(self, oldest: AttachedJob) -> None:
        for evicted in [each for each, other in self._makes_way_for.items() if other is oldest]:
            del self._makes_way_for[evicted]
            self._engine.residence.come(evicted, EvictionReason.DEADLOCK)

    def _see(self, resident: AttachedJob, seen: Progress, now_ns: int) -> _Sight:
        state = (seen.iteration, seen.launched, seen.done, seen.held_bytes)
        sight = self._sights.get(resident)
        if sight is None or sight.state != state:
            sight = self._sights[resident] = _Sight(state, now_ns)
        else:
            sight.ticks += 1
        return sight

    # --- a misprediction

    def _look_for_deadlock(self, running: list[tuple[AttachedJob, Progress, _Sight]]) -> None:
        for resident, seen, _ in running:
            if seen.wanted_bytes and not resident.stalled:
                resident.stalled = True
                self._engine.post(ev.JobStalled(self._engine.now_ns, resident.name))
        running.sort(key=lambda each: each[1].age)
        stuck = all(seen.wanted_bytes and sight.ticks >= 2 for _, seen, sight in running)
        # One may also starve beside others that go on and give nothing back.
        starving = [each for each in running if each[1].wanted_bytes and each[2].ticks >= _STARVING_TICKS]
        # Somebody may be about to give or take, but not for ever: it may itself wait for what these hold.
        settling = self._engine.residence.settling and all(sight.ticks < _STARVING_TICKS for _, _, sight in running)
        if not running or not (stuck or starving) or settling:
            return
        if not stuck:
            running.sort(key=lambda each: each is not starving[0])  # it goes first now
        oldest = running[0][0]
        if (evicted := self._who_leaves(oldest, [resident for resident, _, _ in running])) is not None:
            self._makes_way_for[evicted] = oldest
            self._engine.post(ev.JobEvicted(self._engine.now_ns, evicted.name))
            self._engine.residence.leave(evicted, EvictionReason.DEADLOCK)

    def _who_leaves(self, oldest: AttachedJob, by_age: list[AttachedJob]) -> AttachedJob | None:
        """The youngest that runs; if there is only one, the newest of the others that hold bytes."""
        if len(by_age) > 1:
            return by_age[-1]
        idle = [
            resident
            for resident in self._engine.residents.values()
            if resident is not oldest and resident.away is None and not resident.unresponsive
            if self._engine.board.progress(resident.slot).held_bytes
        ]
        return idle[-1] if idle else None

    # --- jobs that do not come along

    def _look_for_absence(self, resident: AttachedJob, seen: Progress, sight: _Sight, now_ns: int) -> None:
        still_ns = now_ns - max(sight.since_ns, resident.permitted_ns)
        if still_ns < _STOPPED_NS or not resident.gate_open:
            return
        if not self._engine.is_stopped(resident):
            if seen.wanted_bytes:
                return
            solo_ns = 0 if resident.profile is None else resident.profile.solo_ns
            patience_ns = max(_HANGS_NS, _HANGS_ITERATIONS * solo_ns) if on_device(resident, seen) else _UNUSED_NS
            if still_ns < patience_ns:
                return
        self._engine.close_permit(resident)
        with suppress(BoardError):  # its process has just died
            self._engine.board.forget_expected_leases(resident.slot)
        self._engine.post(ev.JobEvicted(now_ns, resident.name, unresponsive=True))
        self._is_absent(resident)

    def _waited_for(self, resident: AttachedJob) -> bool:
        """Whether it is to do something that is not an iteration: to be measured, to go or to come."""
        return not resident.arrived or self._engine.residence.awaits(resident)

    def _look_for_stop(self, resident: AttachedJob, sight: _Sight, now_ns: int) -> None:
        still_ns = now_ns - max(sight.since_ns, resident.asked_ns)
        if still_ns >= _STOPPED_NS and self._engine.is_stopped(resident):
            self._is_absent(resident)

    def _is_absent(self, resident: AttachedJob) -> None:
        resident.unresponsive = True
        self._absence_changed()

    def _look_for_return(self, resident: AttachedJob, seen: Progress, sight: _Sight) -> None:
        if self._engine.is_stopped(resident):
            return
        waits = seen.wanted_bytes or (seen.state is SlotState.WAITING_PERMIT and not on_device(resident, seen))
        if waits or sight.ticks == 0 or self._waited_for(resident):
            self.returned(resident)

    def returned(self, resident: AttachedJob) -> None:
        """A job that did not come along does again."""
        resident.unresponsive = False
        self._engine.permit(resident)
        if resident.arrived and self._ledger.account(resident.name).unresponsive:
            self._engine.post(ev.JobResumed(self._engine.now_ns, resident.name))
        self._absence_changed()
