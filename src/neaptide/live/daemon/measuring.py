"""Newcomers, one at a time: each is measured alone on the device, so that its trace is that of an iteration alone.

Nothing new begins while one has its turn. If it waits for memory that the others hold between their iterations, they go
to host memory until it was measured. A newcomer that waits for memory before its first iteration gets its turn then.
One that does not come along loses it, and goes on beside the others. One that needs what jobs that stand still hold
goes to host memory itself, until they let go of it.
"""

from __future__ import annotations

from neaptide.core.control import events as ev
from neaptide.devices.board import Progress
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason, Stage
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.protocol.messages import Turn

_STANDS_STILL_NS = 20_000_000_000
_STOPPED_NS = 300_000_000
_WAITS_NS = 80_000_000


class Measuring:
    """The line of newcomers. `look` is called now and then while there is one; everything else when it happens."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._line: list[AttachedJob] = []
        self._now: AttachedJob | None = None
        self._aside: dict[AttachedJob, int] = {}  # who went to host memory itself, and the bytes that it must have
        self._told = False  # Turn was said
        self._last: tuple[int, int] = (0, 0)
        self._moved_ns = 0  # when the one that is measured last made progress

    @property
    def active(self) -> bool:
        return self._now is not None

    def ready(self, newcomer: AttachedJob) -> None:
        """Its first iteration is about to begin."""
        newcomer.stage = Stage.WAITING
        if newcomer is self._now:
            self._say_turn()
            return
        if newcomer not in self._line:
            self._line.append(newcomer)
        self.advance()

    def over(self, newcomer: AttachedJob) -> None:
        """It was measured, or is gone. Call it when the controller knows of its arrival."""
        self._aside.pop(newcomer, None)
        if newcomer in self._line:
            self._line.remove(newcomer)
        if newcomer is self._now:
            self._end_turn()
        self.advance()

    def advance(self) -> None:
        """Give the next newcomer its turn if nothing is in the way."""
        if self._now is None:
            if not self._line:
                return
            self._now = self._line.pop(0)
            self._told = False
            self._moved_ns = self._engine.now_ns
            self._engine.hold()
            self._engine.residence.come(self._now, EvictionReason.NO_ROOM)
        if not self._told and self._engine.quiet():
            self._say_turn()

    def _say_turn(self) -> None:
        newcomer = self._now
        if newcomer is None or self._told or newcomer.stage is not Stage.WAITING or not self._engine.quiet():
            return
        self._told = True
        self._moved_ns = self._engine.now_ns
        newcomer.stage = Stage.MEASURED
        newcomer.say(Turn())

    def _end_turn(self) -> None:
        self._now = None
        for resident in self._engine.residents.values():
            self._engine.residence.come(resident, EvictionReason.MEASURING)
        self._engine.release()

    def look(self) -> None:
        """See who waits for memory, and whether the one that is measured comes along."""
        now_ns = self._engine.now_ns
        for newcomer in self._engine.residents.values():
            if newcomer.arrived:
                continue
            seen = self._engine.board.progress(newcomer.slot)
            if not seen.wanted_bytes:
                newcomer.wants_since_ns = None
            elif newcomer.wants_since_ns is None:
                newcomer.wants_since_ns = now_ns
            elif now_ns - newcomer.wants_since_ns > _WAITS_NS and newcomer.away is None and not newcomer.unresponsive:
                self._make_room(newcomer, seen.held_bytes + seen.wanted_bytes)
            if newcomer is self._now:
                self._watch(newcomer, seen, now_ns)
        for newcomer, needed_bytes in list(self._aside.items()):
            if self._can_have(needed_bytes):
                del self._aside[newcomer]
                self._line.append(newcomer)
        self.advance()

    def _make_room(self, newcomer: AttachedJob, needed_bytes: int) -> None:
        if not self._can_have(needed_bytes):
            self._set_aside(newcomer, needed_bytes)
            return
        if newcomer is not self._now:
            if newcomer.stage is not Stage.WAITING and newcomer not in self._line:
                self._line.append(newcomer)
            return
        leaving = [other for other in self._engine.residence.settling if other.away is not None]
        if leaving or not self._engine.quiet():
            return
        others = [
            (self._engine.board.progress(resident.slot).held_bytes, resident)
            for resident in self._engine.residents.values()
            if resident is not newcomer and resident.away is None and not resident.unresponsive
        ]
        held_bytes, largest = max(others, key=lambda each: each[0], default=(0, newcomer))
        if held_bytes:
            if largest.arrived:
                self._engine.post(ev.JobEvicted(self._engine.now_ns, largest.name))
            self._engine.residence.leave(largest, EvictionReason.MEASURING)

    def _can_have(self, needed_bytes: int) -> bool:
        """Whether there would be so much if all others left."""
        stuck_bytes = self._engine.stuck_bytes()
        return stuck_bytes == 0 or needed_bytes <= self._engine.board.snapshot().capacity_bytes - stuck_bytes

    def _set_aside(self, newcomer: AttachedJob, needed_bytes: int) -> None:
        self._aside[newcomer] = needed_bytes
        self._engine.residence.leave(newcomer, EvictionReason.NO_ROOM)
        if newcomer in self._line:
            self._line.remove(newcomer)
        if newcomer is self._now:
            self._end_turn()

    def _watch(self, newcomer: AttachedJob, seen: Progress, now_ns: int) -> None:
        stopped = self._engine.is_stopped(newcomer)
        waits = not stopped and (newcomer.stage is Stage.WAITING or seen.wanted_bytes)  # for the others
        if (seen.done, seen.launched) != self._last or waits:
            self._last, self._moved_ns = (seen.done, seen.launched), now_ns
            return
        still_ns = now_ns - self._moved_ns
        if still_ns > _STANDS_STILL_NS or (stopped and still_ns > _STOPPED_NS):
            if newcomer.stage is Stage.WAITING:  # it would wait for its turn for ever
                newcomer.stage = Stage.MEASURED
                newcomer.say(Turn())
            self._end_turn()
