"""The order in which jobs come to the device and start iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from neaptide.core.control.job import RUNNING
from neaptide.core.control.view import JobView, View
from neaptide.core.once import once
from neaptide.policies.parts.idle import long_idle_servers
from neaptide.policies.parts.residence import remaining_ns
from neaptide.policies.parts.shares import with_turns


@dataclass(frozen=True)
class Ranking:
    """Jobs with an SLO come first, earliest deadline of a waiting sample first. The others follow by priority, unless
    those of a lower one are due a turn; then jobs that have waited longer than `patience` times their remaining device
    time; then the shortest remaining time, or, while a job is there that did not say how long it is, the smallest share
    so far; then the longest wait. Servers that are long idle come last.
    """

    view: View
    patience: float

    def ranked(self, jobs: Iterable[JobView]) -> list[JobView]:
        return sorted(jobs, key=self._rank)

    def aged(self, job: JobView) -> bool:
        """Whether the job has waited so long that no job may pass it, or has a deadline."""
        return not self._rank(job)[3]

    @once
    def _rank(self) -> Callable[[JobView], tuple[int, ...]]:
        """The key by which jobs are sorted. What all jobs have in common is found once, because it takes long."""
        now_ns, patience, turns = self.view.now_ns, self.patience, with_turns(self.view)
        idle = {job.name for job in long_idle_servers(self.view)} if self.view.idle_servers else frozenset[str]()
        fair = self.view.has_endless

        def rank(job: JobView) -> tuple[int, ...]:
            since_ns = job.since_ns
            if idle and job.name in idle:
                return (2, 0, 0, True, since_ns)
            if job.deadline_ns is not None:
                return (0, (job.arrivals[0] if job.arrivals else now_ns) + job.deadline_ns, 0, False)
            left_ns = remaining_ns(job)
            aged = job.state is not RUNNING and now_ns - since_ns > patience * left_ns
            return (1, job.name not in turns, -job.priority, not aged, job.share_ns if fair else left_ns, since_ns)

        return rank
