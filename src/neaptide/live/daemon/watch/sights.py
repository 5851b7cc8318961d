"""What the daemon sees of its jobs when it looks at the board every tick, and for how long nothing has moved."""

from __future__ import annotations

from dataclasses import dataclass

from neaptide.devices.board import Progress
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.permits import on_device


@dataclass(frozen=True, slots=True)
class Sight:
    """One job at one tick."""

    job: AttachedJob
    seen: Progress
    since_ns: int  # since when its iterations, kernels and bytes are as they are
    ticks: int  # looks since then

    @property
    def iterates(self) -> bool:
        """Whether an iteration that the policy started is on the device and may go on."""
        job = self.job
        on_its_way = job.arrived and job.running and job.eviction is None and not job.unresponsive
        return on_its_way and on_device(job, self.seen)


class Watching:
    """Keeps the last sight of every job."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._sights: dict[AttachedJob, Sight] = {}

    def look(self) -> list[Sight]:
        """See every job now, in the order of Hello."""
        self._sights = {job: self._see(job) for job in self._engine.jobs.values()}
        return list(self._sights.values())

    def _see(self, job: AttachedJob) -> Sight:
        seen, last = self._engine.board.progress(job.slot), self._sights.get(job)
        job.note_waiting(seen)
        if last is None or _counters(last.seen) != _counters(seen):
            return Sight(job, seen, self._engine.now_ns, 0)
        return Sight(job, seen, last.since_ns, last.ticks + 1)


def _counters(seen: Progress) -> tuple[int, int, int, int]:
    return seen.iteration, seen.launched, seen.done, seen.held_bytes
