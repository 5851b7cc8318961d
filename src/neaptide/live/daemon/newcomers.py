"""New jobs: until a job has been measured it runs beside the others, within what is free.

Nobody stands still for a new job: it takes what is free, and policies see a budget that is smaller by what it held of
late. If it is known what it will hold, because an earlier run was measured or the user said so, they see one that is
smaller by that from the beginning. If it waits for memory that others hold, room is made for it: they are evicted, one
at a time. The room lasts until the job was measured, does nothing, or has had it for a while, which is long beside the
moves that it took. In the last two cases the job itself goes to host memory for as long, so that the others have their
turn; then room may be made again. Room is made for one new job at a time. A job that shows no iterations stays a new
job for its whole life.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from neaptide.core.control import events as ev
from neaptide.core.rules.eviction import choose_victim
from neaptide.core.rules.patience import (
    COUNTED_NS,
    NEWCOMER_IDLE_NS,
    NEWCOMER_STARVES_NS,
    NEWCOMER_WAITS_NS,
    room_ns,
)
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.watch.deadlock import holder
from neaptide.live.daemon.watch.sights import Sight

_STEADY = 8  # what a new job counts with changes only by more than this fraction of it


@dataclass(slots=True)
class _Held:
    """What a new job held and waited for of late."""

    looks: deque[tuple[int, int]] = field(default_factory=deque)  # when, and how many bytes

    def most_bytes(self, now_ns: int, seen_bytes: int) -> int:
        """The most within the last while, with what is seen now."""
        self.looks.append((now_ns, seen_bytes))
        while self.looks[0][0] < now_ns - COUNTED_NS:
            self.looks.popleft()
        return max(held for _, held in self.looks)


@dataclass(slots=True)
class _Advance:
    """Since when a new job has made no progress: it has neither launched nor done a kernel, nor held more than ever.

    Bytes that are moved to host memory and back, or given back and taken again, are no progress.
    """

    since_ns: int
    kernels: tuple[int, int, int] = (0, 0, 0)
    most_bytes: int = 0

    def note(self, sight: Sight, now_ns: int) -> int:
        """See the job now. Returns since when it has made no progress."""
        seen = sight.seen
        kernels = (seen.iteration, seen.launched, seen.done)
        if kernels != self.kernels or seen.held_bytes > self.most_bytes:
            self.since_ns, self.kernels, self.most_bytes = now_ns, kernels, max(seen.held_bytes, self.most_bytes)
        return self.since_ns


@dataclass(slots=True)
class _Room:
    """The room that is made for a new job."""

    newcomer: AttachedJob
    made_ns: int = 0  # how long it took to move jobs for it
    used_ns: int = 0  # how long the job has had it

    @property
    def lasts_ns(self) -> int:
        return room_ns(self.made_ns)


@dataclass(slots=True)
class _SentAway:
    """A new job that is in host memory so that others have their turn."""

    needed_bytes: int
    lasts_ns: int
    spent_ns: int = 0  # in host memory so far


class Newcomers:
    """`look` is called every tick."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._held: dict[AttachedJob, _Held] = {}
        self._advances: dict[AttachedJob, _Advance] = {}
        self._room: _Room | None = None
        self._sent_away: dict[AttachedJob, _SentAway] = {}
        self._looked_ns = 0

    def over(self, newcomer: AttachedJob) -> None:
        """The job was measured, and the controller knows of its arrival; or it is gone."""
        self._held.pop(newcomer, None)
        self._advances.pop(newcomer, None)
        self._sent_away.pop(newcomer, None)
        self._engine.host_moves.restore(newcomer, EvictionReason.NO_ROOM)
        if self._has_room(newcomer):
            self._end_room()

    def _has_room(self, newcomer: AttachedJob) -> bool:
        return self._room is not None and self._room.newcomer is newcomer

    def look(self, sights: Sequence[Sight]) -> None:
        """See what new jobs hold and which of them wait for memory."""
        now_ns = self._engine.now_ns
        passed_ns, self._looked_ns = now_ns - self._looked_ns, now_ns
        self._bring_back(passed_ns)
        new = [sight for sight in sights if sight.job.is_new]
        self._count(new, now_ns)
        for sight in new:
            since_ns = self._advances.setdefault(sight.job, _Advance(now_ns)).note(sight, now_ns)
            room = self._room
            if room is not None and room.newcomer is sight.job and self._room_is_over(room, sight, passed_ns):
                self._send_away(sight, room.lasts_ns)
                self._end_room()
            elif _waits(sight, now_ns) and now_ns - since_ns > _patience_ns(sight, sights, now_ns):
                self._make_room(sight, sights)

    def _count(self, new: Sequence[Sight], now_ns: int) -> None:
        for sight in new:
            job, before = sight.job, sight.job.counted_bytes
            most_bytes = self._held.setdefault(job, _Held()).most_bytes(now_ns, _needed_bytes(sight))
            most_bytes = max(most_bytes, job.expected_bytes)
            if abs(most_bytes - before) > before // _STEADY:
                job.counted_bytes = most_bytes

    def _room_is_over(self, room: _Room, sight: Sight, passed_ns: int) -> bool:
        if self._is_being_made(sight):
            room.made_ns += passed_ns
            return False
        room.used_ns += passed_ns
        still_ns = min(sight.still_ns(self._engine.now_ns), room.used_ns)
        idle = not sight.seen.wanted_bytes and still_ns > NEWCOMER_IDLE_NS
        return idle or room.used_ns > room.lasts_ns

    def _is_being_made(self, sight: Sight) -> bool:
        """Whether others are on their way to host memory, or the new job on its way back from there."""
        if any(job.eviction is not None for job in self._engine.host_moves.in_progress):
            return True
        return self._engine.host_moves.awaits(sight.job) and not sight.seen.wanted_bytes

    def _make_room(self, sight: Sight, sights: Sequence[Sight]) -> None:
        newcomer, now_ns = sight.job, self._engine.now_ns
        if _needed_bytes(sight) > self._engine.board.snapshot().capacity_bytes:
            return  # no room would be enough
        if not self._can_have(_needed_bytes(sight)):
            self._send_away(sight, 0)
            if self._has_room(newcomer):
                self._end_room()
            return
        if self._room is not None and self._room.newcomer is not newcomer:
            return
        if any(job.eviction is not None for job in self._engine.host_moves.in_progress):
            return
        victim = choose_victim([holder(each, now_ns) for each in sights], newcomer.name)
        if victim is None:
            return
        self._room = self._room or _Room(newcomer)
        job = self._engine.jobs[victim.job]
        if job.arrived:
            self._engine.post(ev.JobEvicted(now_ns, job.name))
        self._engine.host_moves.evict(job, EvictionReason.NEWCOMER)

    def _end_room(self) -> None:
        self._room = None
        for job in self._engine.jobs.values():
            self._engine.host_moves.restore(job, EvictionReason.NEWCOMER)

    def _send_away(self, sight: Sight, lasts_ns: int) -> None:
        if sight.job.can_move(self._engine.now_ns):
            self._sent_away[sight.job] = _SentAway(_needed_bytes(sight), lasts_ns)
            self._engine.host_moves.evict(sight.job, EvictionReason.NO_ROOM)

    def _bring_back(self, passed_ns: int) -> None:
        for newcomer, sent in list(self._sent_away.items()):
            if not self._engine.host_moves.awaits(newcomer):
                sent.spent_ns += passed_ns
            if sent.spent_ns >= sent.lasts_ns and self._can_have(sent.needed_bytes):
                del self._sent_away[newcomer]
                self._engine.host_moves.restore(newcomer, EvictionReason.NO_ROOM)

    def _can_have(self, needed_bytes: int) -> bool:
        """Whether this much would be free if all other jobs that respond were evicted."""
        stuck_bytes = self._engine.stuck_bytes()
        return stuck_bytes == 0 or needed_bytes <= self._engine.board.snapshot().capacity_bytes - stuck_bytes


def _waits(sight: Sight, now_ns: int) -> bool:
    """Whether a new job on the device waits for memory."""
    return bool(sight.seen.wanted_bytes) and sight.job.can_move(now_ns)


def _patience_ns(newcomer: Sight, sights: Sequence[Sight], now_ns: int) -> int:
    """How long a new job waits for memory before room is made for it."""
    others_go_on = any(sight.iterates or _goes_on(sight, now_ns) for sight in sights if sight is not newcomer)
    return NEWCOMER_STARVES_NS if others_go_on else NEWCOMER_WAITS_NS


def _goes_on(sight: Sight, now_ns: int) -> bool:
    """Whether a new job on the device has moved of late, so that it may give memory back."""
    on_device = sight.job.is_new and sight.job.can_move(now_ns) and not sight.seen.wanted_bytes
    return on_device and sight.still_ns(now_ns) < NEWCOMER_STARVES_NS


def _needed_bytes(sight: Sight) -> int:
    return sight.seen.held_bytes + sight.seen.wanted_bytes
