"""Measures new jobs, one at a time and alone on the device, so that the trace is that of an iteration alone.

No iteration begins while a new job has its turn. If the new job waits for memory that other jobs hold between their
iterations, they are moved to host memory until it was measured. A new job that stops loses its turn and runs beside the
others; if it then waits for memory, it gets another turn. A new job that needs memory held by stopped jobs is evicted
until that memory is free.
"""

from __future__ import annotations

from neaptide.core.control import events as ev
from neaptide.core.rules.eviction import Holder, choose_victim
from neaptide.core.rules.patience import MEASURING_HANGS_NS, NEWCOMER_WAITS_NS, STOPPED_NS
from neaptide.devices.board import Progress
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason, Stage
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.protocol.messages import Turn


class Measuring:
    """The line of new jobs. `look` is called every tick while there is one."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._line: list[AttachedJob] = []
        self._now: AttachedJob | None = None  # the job whose turn it is
        self._told = False  # it was sent Turn
        self._set_aside: dict[AttachedJob, int] = {}  # evicted new jobs, and the bytes that each must have
        self._progress: tuple[int, int] = (0, 0)
        self._moved_ns = 0  # when the measured job last made progress

    @property
    def active(self) -> bool:
        return self._now is not None

    def add(self, newcomer: AttachedJob) -> None:
        """Add a new job to the line."""
        self._line.append(newcomer)
        self.advance()

    def over(self, newcomer: AttachedJob) -> None:
        """The job was measured, and the controller knows of its arrival; or it is gone."""
        self._set_aside.pop(newcomer, None)
        if newcomer in self._line:
            self._line.remove(newcomer)
        if newcomer is self._now:
            self._end_turn()
        self.advance()

    def advance(self) -> None:
        """Give the next new job its turn, when the device is quiet."""
        if self._now is None:
            if not self._line:
                return
            self._now = self._line.pop(0)
            self._told = False
            self._moved_ns = self._engine.now_ns
            self._engine.permits.hold()
            self._engine.host_moves.restore(self._now, EvictionReason.NO_ROOM)
        self._tell()

    def _tell(self) -> None:
        newcomer = self._now
        if newcomer is None or self._told or newcomer.stage is not Stage.WAITING:
            return
        if self._engine.permits.device_is_quiet():
            self._told = True
            self._moved_ns = self._engine.now_ns
            newcomer.stage = Stage.MEASURING
            newcomer.say(Turn())

    def _end_turn(self) -> None:
        self._now = None
        for job in self._engine.jobs.values():
            self._engine.host_moves.restore(job, EvictionReason.MEASURING)
        self._engine.permits.release()

    def look(self) -> None:
        """See which new jobs wait for memory, and whether the measured job makes progress."""
        now_ns = self._engine.now_ns
        for newcomer in self._engine.jobs.values():
            if newcomer.arrived:
                continue
            seen = self._engine.board.progress(newcomer.slot)
            if not seen.wanted_bytes:
                newcomer.waits_since_ns = None
            elif newcomer.waits_since_ns is None:
                newcomer.waits_since_ns = now_ns
            elif _can_move(newcomer) and now_ns - newcomer.waits_since_ns > NEWCOMER_WAITS_NS:
                self._make_room(newcomer, seen.held_bytes + seen.wanted_bytes)
            if newcomer is self._now:
                self._watch(newcomer, seen, now_ns)
        for newcomer, needed_bytes in list(self._set_aside.items()):
            if self._can_have(needed_bytes):
                del self._set_aside[newcomer]
                self._line.append(newcomer)
        self.advance()

    def _make_room(self, newcomer: AttachedJob, needed_bytes: int) -> None:
        if not self._can_have(needed_bytes):
            self._evict(newcomer, needed_bytes)
            return
        if newcomer is not self._now:
            if newcomer.stage is Stage.MEASURING and newcomer not in self._line:  # it has lost its turn
                self._line.append(newcomer)
            return
        leaving = any(job.eviction is not None for job in self._engine.host_moves.in_progress)
        if leaving or not self._engine.permits.device_is_quiet():
            return
        holders = [
            Holder(job.name, self._engine.board.progress(job.slot).held_bytes, can_move=_can_move(job))
            for job in self._engine.jobs.values()
        ]
        if (victim := choose_victim(holders, newcomer.name)) is not None:
            job = self._engine.jobs[victim.job]
            if job.arrived:
                self._engine.post(ev.JobEvicted(self._engine.now_ns, job.name))
            self._engine.host_moves.evict(job, EvictionReason.MEASURING)

    def _can_have(self, needed_bytes: int) -> bool:
        """Whether this much would be free if all other jobs that respond were evicted."""
        stuck_bytes = self._engine.stuck_bytes()
        return stuck_bytes == 0 or needed_bytes <= self._engine.board.snapshot().capacity_bytes - stuck_bytes

    def _evict(self, newcomer: AttachedJob, needed_bytes: int) -> None:
        self._set_aside[newcomer] = needed_bytes
        self._engine.host_moves.evict(newcomer, EvictionReason.NO_ROOM)
        if newcomer in self._line:
            self._line.remove(newcomer)
        if newcomer is self._now:
            self._end_turn()

    def _watch(self, newcomer: AttachedJob, seen: Progress, now_ns: int) -> None:
        stopped = self._engine.is_stopped(newcomer)
        waits_for_others = not stopped and (newcomer.stage is Stage.WAITING or seen.wanted_bytes)
        if (seen.done, seen.launched) != self._progress or waits_for_others:
            self._progress, self._moved_ns = (seen.done, seen.launched), now_ns
            return
        still_ns = now_ns - self._moved_ns
        if still_ns > MEASURING_HANGS_NS or (stopped and still_ns > STOPPED_NS):
            if newcomer.stage is Stage.WAITING:  # otherwise it would wait for its turn for ever
                newcomer.stage = Stage.MEASURING
                newcomer.say(Turn())
            self._end_turn()


def _can_move(job: AttachedJob) -> bool:
    return job.eviction is None and not job.unresponsive
