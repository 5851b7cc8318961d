"""Corrects how long a job's iterations take alone.

A job is measured beside others, so its time alone is put together from its kernels' own times. Iterations that no other
job was there to disturb show it better. Iterations beside others show a bound: none takes longer alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from weakref import WeakKeyDictionary

from neaptide.core.control import events as ev
from neaptide.core.traces.profile import Profile
from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.protocol.messages import IterationEnded

_ENOUGH = 8  # iterations; after each correction twice as many, so that there are few
_ALIKE = 0.1  # times that differ by no more than this are taken as equal


@dataclass(slots=True)
class _Times:
    """A job's iterations since the last comparison, all of them alone or all beside others."""

    alone: bool
    times_ns: list[float] = field(default_factory=list)
    enough: int = _ENOUGH


class TimesAlone:
    """Posts JobMeasured when the time that is known of a job is wrong. The ledger's account then follows."""

    def __init__(self, engine: LiveEngine) -> None:
        self._engine = engine
        self._seen: WeakKeyDictionary[AttachedJob, _Times] = WeakKeyDictionary()

    def iteration_ended(self, job: AttachedJob, ended: IterationEnded, count: int) -> None:
        """Note an iteration of a job that the controller knows, or the average of `count` reported together."""
        engine = self._engine
        if job.profile is None:
            return
        alone = len(engine.jobs) == 1 and engine.now_ns - ended.took_ns >= engine.jobs_changed_ns
        alone = alone and not self._over_the_link(job, job.profile)
        seen = self._seen.get(job)
        if seen is None or seen.alone is not alone:
            seen = self._seen[job] = _Times(alone)
        seen.times_ns.append(ended.took_ns / (ended.size * count))
        if len(seen.times_ns) < seen.enough:
            return
        solo_ns, known_ns = max(round(median(seen.times_ns)), 1), job.profile.solo_ns
        seen.times_ns.clear()
        if (alone or solo_ns < known_ns) and abs(solo_ns - known_ns) > _ALIKE * known_ns:
            seen.enough *= 2
            engine.post(ev.JobMeasured(engine.now_ns, job.name, solo_ns))
            job.is_known_as(job.profile.timed(solo_ns))

    def _over_the_link(self, job: AttachedJob, profile: Profile) -> bool:
        """Whether its iterations take longer than alone in a device that is large enough."""
        if job.limit_bytes is not None:
            return True
        engine = self._engine
        return engine.oversubscribes and profile.peak_bytes > engine.board.snapshot().capacity_bytes
