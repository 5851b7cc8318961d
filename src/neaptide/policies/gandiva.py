"""Gandiva (OSDI'18): jobs take turns in time slices; under overload two jobs share the device on trial.

The paper keeps a pair together only if the measured mini-batch times show that packing helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, MoveLane, Resume, Start, Suspend
from neaptide.core.control.job import QUEUED, READY, RUNNING
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import expects_work, has_work

_OWNER, _GUEST = 0, 1  # lanes: the job that has the slice, and the job beside it


@dataclass(frozen=True)
class Gandiva(Policy):
    """One job owns the device for a slice. Then it is suspended at the end of an iteration, and the next one owns it.

    The next owner is the job that has been away longest. While jobs wait, the one with the lowest utilisation may run
    beside the owner as its guest, if both peaks fit the budget. Once both have been measured beside each other and
    reach less than `least_gain` times the throughput of taking turns, the guest leaves, and the two are not paired
    again.
    """

    name = "gandiva"
    needs = frozenset({Need.ITERATION_TIME, Need.SUSPEND})
    slice_ns: int = 60_000_000_000
    least_gain: float = 1.05

    def decide(self, view: View) -> Sequence[Action]:
        fits = [job for job in view.jobs if job.profile.peak_bytes <= view.budget_bytes]
        # The engine restores those that it evicted.
        here = [job for job in view.jobs if job.admitted or (job.evicted and job in fits)]
        away = [job for job in fits if not job.admitted and not job.evicted and expects_work(job)]
        away.sort(key=lambda job: job.since_ns)
        over = self._over(here, view.now_ns)
        leave = self._leave(here, over and bool(away), view.budget_bytes)
        stay = [job for job in here if job not in leave]
        actions: list[Action] = [Suspend(job.name) for job in leave]
        arrived: list[JobView] = []
        if not any(job.lane == _OWNER for job in stay):
            if away and away[0].profile.peak_bytes <= _left(stay, view):
                arrived.append(away[0])
                actions += _bring(away[0], _OWNER)
            elif not away and (admitted := [job for job in stay if job.admitted]):  # no other job wants the slice
                actions.append(MoveLane(admitted[0].name, _OWNER))
        elif not over and (guest := self._guest(stay, away, view)) is not None:
            arrived.append(guest)
            actions += _bring(guest, _GUEST)
        came = [job for job in arrived if has_work(job)]
        return actions + [Start(job.name) for job in [*stay, *came] if job.wants_to_run or job in came]

    def _over(self, here: Sequence[JobView], now_ns: int) -> bool:
        """Whether the owner's slice has ended, or the owner has no work."""
        owners = [job for job in here if job.lane == _OWNER and (job.state is RUNNING or expects_work(job))]
        return all(now_ns - owner.lane_since_ns >= self.slice_ns for owner in owners)

    def _leave(self, here: Sequence[JobView], over: bool, budget_bytes: int) -> list[JobView]:
        """The jobs to suspend between iterations: all when the slice is over.

        Before that a guest that hurts, and jobs that no longer fit after a budget cut: first the guest.
        """
        ready = [job for job in here if job.state is READY and not job.finishing]
        if over:
            return ready
        crowded = sum(job.profile.peak_bytes for job in here) > budget_bytes
        guests = [job for job in ready if job.lane == _GUEST]
        hurt = [job for job in guests if crowded or any(self._hurts(job, other) for other in here)]
        return hurt + [job for job in ready if job.profile.peak_bytes > budget_bytes and job not in hurt]

    def _guest(self, stay: Sequence[JobView], away: Sequence[JobView], view: View) -> JobView | None:
        """The job with the lowest utilisation that fits beside the owner and is not known to hurt."""
        if any(job.lane == _GUEST for job in stay):
            return None
        beside = [job for job in away if job.profile.peak_bytes <= _left(stay, view)]
        beside = [job for job in beside if not any(self._hurt_before(job, other) for other in stay)]
        return min(beside, key=lambda job: job.profile.utilisation, default=None)

    def _hurts(self, one: JobView, other: JobView) -> bool:
        """Whether the pair was too slow: what both do per unit of time beside each other, where turns give 1."""
        if other.name not in one.beside or one.name not in other.beside:
            return False  # not tried yet
        return 1 / one.beside[other.name] + 1 / other.beside[one.name] < self.least_gain

    def _hurt_before(self, one: JobView, other: JobView) -> bool:
        """Whether a pair that was taken apart was too slow.

        The larger slowdown counts, because one of the two ended its last iteration beside the other alone.
        """
        slower = max(one.beside.get(other.name, 1.0), other.beside.get(one.name, 1.0))
        return 2 / slower < self.least_gain


def _left(stay: Sequence[JobView], view: View) -> int:
    return view.budget_bytes - sum(job.profile.peak_bytes for job in stay)


def _bring(job: JobView, lane: int) -> list[Action]:
    return [Admit(job.name, lane)] if job.state is QUEUED else [Resume(job.name), MoveLane(job.name, lane)]
