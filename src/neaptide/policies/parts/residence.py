"""Who is on the device, when jobs are ranked: the best come in first, and the worst may have to go to host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from neaptide.core.control.actions import Action, Admit, Resume, SetPlan, Suspend
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.view import JobView
from neaptide.policies.parts.admission import room
from neaptide.policies.parts.plans import best_plan

LINK_BYTES_PER_NS = 10.0  # about what a device's link to the host does
# A job leaves the device for another only if it has this many times the copying still to do, and is this much longer.
WORTH_A_COPY = 20
FAR_LONGER = 1.5
ENOUGH = 4.0


def remaining_ns(job: JobView) -> int:
    """Device time to the job's end. One that did not say is expected to need as much again as it has had."""
    if job.requests:
        return -(-len(job.requests) // job.profile.batch) * job.profile.solo_ns
    if job.iterations_left is None:
        return job.service_ns + job.profile.solo_ns
    return max(job.iterations_left * job.profile.solo_ns - job.position_ns, 0)


def makes_way(job: JobView, newcomer: JobView) -> bool:
    """Whether a job would leave the device for one that ranks before it: only if it is far longer, or less urgent."""
    if job.deadline_ns is not None or job.priority > newcomer.priority:
        return False
    if newcomer.deadline_ns is not None or job.priority < newcomer.priority:
        return True
    copying_ns = job.profile.persistent_bytes / LINK_BYTES_PER_NS
    return remaining_ns(job) > max(FAR_LONGER * remaining_ns(newcomer), WORTH_A_COPY * copying_ns)


@dataclass(frozen=True)
class Residence:
    """Jobs in the order of their rank, under a budget; `aged` says who has waited so long that nobody may pass it."""

    ranked: Sequence[JobView]
    budget_bytes: int
    in_flight: int
    aged: Callable[[JobView], bool]

    def settle(self) -> tuple[list[Action], list[JobView]]:
        """Who comes, who goes and with which plan; and those who are on the device after that, by rank.

        The best-ranked job that does not fit has those that make way for it sent out, worst first, each at the end of
        its iteration; until it is in, nobody else comes in. If even that gives no room, those behind it may pass it,
        unless it has aged. A job whose every plan is larger than the budget is passed over. Training jobs come in only
        while those before them do not ask for the device ENOUGH times over: more would be in the way of later ones.
        """
        actions: list[Action] = []
        inside = {job.name: job for job in self.ranked if job.admitted}
        if len(inside) == len(self.ranked):
            return actions, list(self.ranked)
        may_send_out, asked = True, 0.0
        for job in self.ranked:
            admitted = job.admitted
            if job.kind is JobKind.TRAINING:
                if not admitted and asked >= ENOUGH:
                    continue
                asked += job.profile.utilisation
            if admitted:
                continue
            if min(profile.peak_bytes for profile in job.plans) > self.budget_bytes:
                continue
            if (plan := self._plan(job, inside)) is None:
                leave = self._who_makes_way(job, inside) if may_send_out else []
                may_send_out = False
                actions += [Suspend(other.name) for other in leave if other.state is JobState.READY]
                inside = {name: other for name, other in inside.items() if other not in leave}
                if any(other.state is JobState.RUNNING for other in leave) or (not leave and self.aged(job)):
                    inside.update({other.name: other for other in leave if other.state is JobState.RUNNING})
                    break
                if not leave:
                    continue
                plan = self._plan(job, inside)
                assert plan is not None, "those who left made room"
            inside[job.name] = replace(job, plan=plan)
            if job.evicted:
                continue  # the engine brings it back; its place is kept
            actions += [SetPlan(job.name, plan)] if plan != job.plan else []
            actions.append(Admit(job.name) if job.state is JobState.QUEUED else Resume(job.name))
        return actions, [inside[job.name] for job in self.ranked if job.name in inside and not job.evicted]

    def _plan(self, job: JobView, inside: dict[str, JobView]) -> int | None:
        others = [other.profile for other in inside.values()]
        if job.state is JobState.QUEUED and len(job.plans) > 1:
            return best_plan(job, others, self.budget_bytes, self.in_flight)
        return job.plan if room([*others, job.profile], self.budget_bytes) >= 0 else None

    def _who_makes_way(self, job: JobView, inside: dict[str, JobView]) -> list[JobView]:
        """The fewest from the end of the rank that give the job room; none if they do not."""
        left = dict(inside)
        leave: list[JobView] = []
        for other in reversed(self.ranked):
            if other is job:
                break
            if other.admitted and other.name in left and makes_way(other, job):
                leave.append(left.pop(other.name))
                if self._plan(job, left) is not None:
                    return leave
        return []
