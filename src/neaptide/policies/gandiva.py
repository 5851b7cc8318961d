"""Gandiva (OSDI'18): time slices, and pairs packed under overload on trial, judged by measured mini-batch time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, MoveLane, Resume, Start, Suspend
from neaptide.core.control.job import JobState
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import has_work

_OWNER, _GUEST = 0, 1  # lanes: who has the slice, and who runs beside


@dataclass(frozen=True)
class Gandiva(Policy):
    """One job owns the device for a slice; then, at the end of an iteration, it goes to host memory for the next one.

    Next is the job that was away for longest. While jobs wait, the least demanding of them may run beside the owner as
    its guest, if their peaks fit the budget together. When both have been measured beside each other and do not reach
    `least_gain` times the throughput of taking turns, the guest leaves, and the two are not paired again.
    """

    name = "gandiva"
    needs = frozenset({Need.ITERATION_TIME, Need.SUSPEND})
    slice_ns: int = 60_000_000_000
    least_gain: float = 1.05

    def decide(self, view: View) -> Sequence[Action]:
        fits = [job for job in view.jobs if job.profile.peak_bytes <= view.budget_bytes]
        here = [job for job in fits if job.admitted]
        away = [job for job in fits if not job.admitted and not job.evicted and has_work(job)]
        away.sort(key=lambda job: job.since_ns)
        over = self._over(here, view.now_ns)
        leave = self._leave(here, over and bool(away))
        stay = [job for job in here if job not in leave]
        actions: list[Action] = [Suspend(job.name) for job in leave]
        came: list[JobView] = []
        if not any(job.lane == _OWNER for job in stay):
            if away and away[0].profile.peak_bytes <= _left(stay, view):
                came.append(away[0])
                actions += _come(away[0], _OWNER)
            elif stay and not away:  # nobody else wants the slice
                actions.append(MoveLane(stay[0].name, _OWNER))
        elif not over and (guest := self._guest(stay, away, view)) is not None:
            came.append(guest)
            actions += _come(guest, _GUEST)
        return actions + [Start(job.name) for job in stay + came if job.wants_to_run or job in came]

    def _over(self, here: Sequence[JobView], now_ns: int) -> bool:
        """Whether nobody has a right to the slice any more."""
        owners = [job for job in here if job.lane == _OWNER and (job.state is JobState.RUNNING or has_work(job))]
        return all(now_ns - owner.lane_since_ns >= self.slice_ns for owner in owners)

    def _leave(self, here: Sequence[JobView], over: bool) -> list[JobView]:
        """Who goes at the end of its iteration: guests go with their owner, and earlier when they do not pay."""
        ready = [job for job in here if job.state is JobState.READY and not job.finishing]
        if over:
            return ready
        guests = [job for job in ready if job.lane == _GUEST]
        return [job for job in guests if any(self._hurts(job, other) for other in here)]

    def _guest(self, stay: Sequence[JobView], away: Sequence[JobView], view: View) -> JobView | None:
        """The least demanding job that has a place beside the owner and is not known to hurt."""
        if any(job.lane == _GUEST for job in stay):
            return None
        beside = [job for job in away if job.profile.peak_bytes <= _left(stay, view)]
        beside = [job for job in beside if not any(self._hurts(job, other) for other in stay)]
        return min(beside, key=lambda job: job.profile.utilisation, default=None)

    def _hurts(self, one: JobView, other: JobView) -> bool:
        """By the worse of the two: the other one's last measurement may be of an iteration that was half alone."""
        if other.name not in one.beside or one.name not in other.beside:
            return False  # not tried yet
        return 2 / max(one.beside[other.name], other.beside[one.name]) < self.least_gain


def _left(stay: Sequence[JobView], view: View) -> int:
    return view.budget_bytes - sum(job.profile.peak_bytes for job in stay)


def _come(job: JobView, lane: int) -> list[Action]:
    return [Admit(job.name, lane)] if job.state is JobState.QUEUED else [Resume(job.name), MoveLane(job.name, lane)]
