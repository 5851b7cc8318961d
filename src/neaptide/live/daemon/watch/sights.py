"""What the daemon sees of its jobs when it looks at the board every tick, and for how long nothing has moved.

On a busy machine a process may get no core for seconds: it does not stand still, it has no chance to move. So time in
which one of its threads could run and had no core is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from neaptide.core.rules.patience import TICK_NS
from neaptide.devices.board import Progress
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.daemon.permits import on_device
from neaptide.live.daemon.watch.core_waits import CoreWaits, longest_wait_ns


@dataclass(frozen=True, slots=True)
class Sight:
    """One job at one tick."""

    job: AttachedJob
    seen: Progress
    since_ns: int  # since when its iterations, kernels and bytes are as they are
    looks: int  # since then
    coreless_ns: int = 0  # of the time since then, how long it had no core

    @property
    def ticks(self) -> int:
        """Looks since when nothing has moved, without those before which it had no core."""
        return max(self.looks - self.coreless_ns // TICK_NS, 0)

    def still_ns(self, now_ns: int, asked_ns: int = 0) -> int:
        """How long nothing has moved since the job was asked to do something, without the time in which it had no core.

        Before it was asked it had nothing to do, and so needed no core.
        """
        return max(now_ns - max(self.since_ns, asked_ns) - self.coreless_ns, 0)

    @property
    def iterates(self) -> bool:
        """Whether an iteration that the policy started is on the device and may go on."""
        job = self.job
        on_its_way = job.arrived and job.running and job.eviction is None and not job.unresponsive
        return on_its_way and on_device(job, self.seen)


class Watching:
    """Keeps the last sight of every job."""

    def __init__(self, engine: LiveEngine, core_waits: CoreWaits) -> None:
        self._engine = engine
        self._core_waits = core_waits
        self._sights: dict[AttachedJob, Sight] = {}
        self._waits: dict[AttachedJob, dict[int, int]] = {}  # of jobs that are to move and do not, as last seen
        self._looked_ns = 0

    def look(self) -> list[Sight]:
        """See every job now, in the order of Hello."""
        waits, self._waits = self._waits, {}
        self._sights = {job: self._see(job, waits.get(job)) for job in self._engine.jobs.values()}
        self._looked_ns = self._engine.now_ns
        return list(self._sights.values())

    def _see(self, job: AttachedJob, waits: dict[int, int] | None) -> Sight:
        seen, last = self._engine.board.progress(job.slot), self._sights.get(job)
        job.note_waiting(seen)
        if last is None or _counters(last.seen) != _counters(seen):
            return Sight(job, seen, self._engine.now_ns, 0)
        coreless_ns = last.coreless_ns
        if self._is_to_move(job, seen):
            self._waits[job] = now = self._core_waits(job.hello.pid)
            waited_ns = 0 if waits is None else longest_wait_ns(waits, now)
            coreless_ns += min(waited_ns, self._engine.now_ns - self._looked_ns)
        return Sight(job, seen, last.since_ns, last.looks + 1, coreless_ns)

    def _is_to_move(self, job: AttachedJob, seen: Progress) -> bool:
        """Whether another job or the daemon may wait for this one. Reading the waits costs a file for each thread."""
        return job.is_new or job.running or bool(seen.wanted_bytes) or self._engine.host_moves.awaits(job)


def _counters(seen: Progress) -> tuple[int, int, int, int]:
    return seen.iteration, seen.launched, seen.done, seen.held_bytes
