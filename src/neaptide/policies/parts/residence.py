"""Which ranked jobs are on the device: the best-ranked come in first, and the worst-ranked may be suspended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Resume, SetPlan, Suspend
from neaptide.core.control.job import QUEUED, READY, RUNNING, TRAINING
from neaptide.core.control.view import ADMITTED, JobView
from neaptide.core.rules.admission import spare_bytes
from neaptide.core.rules.turns import worth_a_copy_ns
from neaptide.policies.parts.admission import expects_work, without_claim
from neaptide.policies.parts.idle import long_idle
from neaptide.policies.parts.plans import best_plan
from neaptide.policies.parts.shares import leaves_for
from neaptide.policies.parts.turns import endless, turn_is_over

# A job leaves the device for an equally urgent one only if its remaining time is this many times the other's.
FAR_LONGER = 1.5
# Training jobs are admitted while those ranked before them together use less than this many times the device.
ENOUGH = 4.0


def remaining_ns(job: JobView) -> int:
    """Device time to the job's end. A job that did not say is expected to need as much again as it has had."""
    if job.requests:
        return -(-len(job.requests) // job.profile.batch) * job.profile.solo_ns
    if job.iterations_left is None:
        return job.share_ns + job.profile.solo_ns
    return max(job.iterations_left * job.profile.solo_ns - job.position_ns, 0)


def yields_to(job: JobView, other: JobView, now_ns: int) -> bool:
    """Whether the job leaves the device for another that ranks before it.

    It does if it is less urgent or far longer. If the length of one of them is unknown, it does after a turn. A
    server that is long idle leaves for any job with work.
    """
    if long_idle(job, now_ns):
        return expects_work(other)
    if job.deadline_ns is not None or other.deadline_ns is not None:
        return job.deadline_ns is None
    if job.priority != other.priority:
        return leaves_for(job, other)
    if endless(job) or endless(other):
        return turn_is_over(job, other, now_ns)
    worth_ns = worth_a_copy_ns(job.profile.persistent_bytes)
    return remaining_ns(job) > max(FAR_LONGER * remaining_ns(other), worth_ns)


@dataclass(frozen=True)
class Residence:
    """Jobs in the order of their rank, under a budget. No job may pass one that is `aged`."""

    ranked: Sequence[JobView]
    budget_bytes: int
    now_ns: int
    in_flight: int
    aged: Callable[[JobView], bool]

    def settle(self) -> tuple[list[Action], list[JobView]]:
        """The actions that bring jobs to the device or suspend them, and the jobs that are then on it, by rank.

        For the best-ranked job that does not fit, jobs that yield to it are suspended, worst rank first, each at the
        end of its iteration; no other job comes in before it. If suspending them is not enough, jobs behind it may pass
        it, unless it is aged. A job whose plans are all larger than the budget is skipped. Training jobs beyond ENOUGH
        are not admitted: they would only be in the way of later, better-ranked jobs.
        """
        actions: list[Action] = []
        inside = {job.name: job for job in self.ranked if job.state in ADMITTED}
        may_suspend, used = True, 0.0
        for job in self.ranked:
            admitted = job.state in ADMITTED
            if job.kind is TRAINING:
                if not admitted and used >= ENOUGH:
                    continue
                used += job.profile.utilisation
            if admitted or without_claim(job):
                continue
            if min(profile.peak_bytes for profile in job.plans) > self.budget_bytes:
                continue
            if (plan := self._plan(job, inside)) is None:
                leave = self._yielding(job, inside) if may_suspend else []
                may_suspend = False
                actions += [Suspend(other.name) for other in leave if other.state is READY]
                inside = {name: other for name, other in inside.items() if other not in leave}
                if any(other.state is RUNNING for other in leave) or (not leave and self.aged(job)):
                    inside.update({other.name: other for other in leave if other.state is RUNNING})
                    break
                if not leave:
                    continue
                plan = self._plan(job, inside)
                assert plan is not None, "the jobs that leave make room"
            inside[job.name] = job.following(plan)
            if job.evicted:
                continue  # the engine restores it, and its place is kept
            actions += [SetPlan(job.name, plan)] if plan != job.plan else []
            actions.append(Admit(job.name) if job.state is QUEUED else Resume(job.name))
        return actions, [inside[job.name] for job in self.ranked if job.name in inside and not job.evicted]

    def _plan(self, job: JobView, inside: dict[str, JobView]) -> int | None:
        others = [other.profile for other in inside.values()]
        if job.state is QUEUED and len(job.plans) > 1:
            return best_plan(job, others, self.budget_bytes, self.in_flight)
        return job.plan if spare_bytes([*others, job.profile], self.budget_bytes) >= 0 else None

    def _yielding(self, job: JobView, inside: dict[str, JobView]) -> list[JobView]:
        """The fewest jobs, from the worst rank on, whose place the job can take; none if all of them are not enough."""
        left = dict(inside)
        leave: list[JobView] = []
        for other in reversed(self.ranked):
            if other is job:
                break
            if other.admitted and other.name in left and yields_to(other, job, self.now_ns):
                leave.append(left.pop(other.name))
                if self._plan(job, left) is not None:
                    return leave
        return []
