"""Salus (MLSys'20): jobs keep their persistent bytes on the device and share lanes of ephemeral memory.

The jobs of a lane take turns between iterations, when there is nothing to copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from neaptide.core.control.actions import Action, Admit, MoveLane, Resume, Start, Suspend, WakeAt
from neaptide.core.control.events import PhaseEnded
from neaptide.core.control.job import INFERENCE, QUEUED, SUSPENDED, TRAINING
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import expects_work, has_work, over_budget
from neaptide.policies.parts.idle import asked_again, long_idle, long_idle_servers
from neaptide.policies.parts.lanes import Lanes, in_iteration
from neaptide.policies.parts.shares import Competition, due, leaves_for, with_turns
from neaptide.policies.parts.turns import Turns, endless

_OVERDUE, _AGED, _IN_TURN = 0, 1, 2


class Order(Enum):
    """Which job of a lane has the next turn."""

    PACK = "pack"  # as many lanes as fit, longest job first: for the best makespan
    SRTF = "srtf"  # shortest remaining time first, preempting at the end of an iteration
    FAIR = "fair"  # equal service
    FIFO = "fifo"  # whole jobs, one after another, as on a device without sharing
    ROUND_ROBIN = "round-robin"


@dataclass(frozen=True)
class Salus(Policy):
    """Each lane runs one iteration at a time. The order decides which job is next, and which is admitted first.

    PACK opens a lane for every job that fits, in the order of arrival, and lets the other jobs wait. The other orders
    use the whole device as a single lane, so that the order is strict. Inference jobs share one lane under any order.

    Jobs that fit pass a job that does not, until it has waited `patience` times its own length. Then no job passes it,
    lanes merge to make room for it, and it has the next turn. If merging is not enough, jobs between two iterations are
    suspended for it, last in the order first; under SRTF this happens for any job that is shorter than all others. (The
    paper never moves a job, so there a large running job keeps all shorter ones out.) A job that did not say how long
    it is, or has run longer than it said, comes after those that did, least served first. Jobs that do not fit together
    take turns where no end of the one on the device can be waited for, and under FIFO whenever one was suspended
    (parts/turns.py). A server that is long idle makes way (parts/idle.py). Priorities share the device by weight
    (parts/shares.py).
    """

    name = "salus"
    needs = frozenset({Need.CURVE, Need.ITERATION_TIME, Need.SUSPEND})
    order: Order = Order.PACK
    patience: float = 10.0
    short_ns: int = 600_000_000_000  # ten minutes: shorter jobs, and those that did not say, count as this long

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"salus-{self.order.value}")

    def decide(self, view: View) -> Sequence[Action]:
        if isinstance(view.event, PhaseEnded):  # lanes change hands between iterations
            return []
        if leave := over_budget(view):  # the budget has shrunk
            return [Suspend(job.name) for job in leave]
        turns, present = self._with_turns(view), Lanes.of(view)
        lanes = self._admit(present.made_safe(), view, turns)
        actions = [] if lanes is present and present.numbered else _changes(view, lanes.lane_of())
        actions += lanes.resizing(view.lanes)
        competition = None
        if view.has_priorities:
            competition = Competition([job for jobs in lanes.members.values() for job in jobs], view.now_ns)
        for jobs in lanes.members.values():
            if [job for job in jobs if in_iteration(job)]:
                continue
            ready = [job for job in jobs if has_work(job) and not job.evicted]
            if competition is not None:
                ready = [job for job in ready if competition.may_start(job)]
            if ready:
                actions.append(Start(min(ready, key=lambda job: self._turn(job, view.now_ns, turns)).name))
        if competition is not None and competition.wake_ns is not None:
            actions.append(WakeAt(competition.wake_ns))
        return asked_again(actions, view)

    # --- admission

    def _admit(self, lanes: Lanes, view: View, turns: frozenset[str]) -> Lanes:
        """The lanes with all jobs that can be admitted now."""
        evicted = [job for job in view.away if job.evicted]
        if self.order is Order.FIFO and not turns and not evicted and self._busy(lanes, view.now_ns):
            return lanes  # they do not share
        waiting = [job for job in view.away if self._may_run(job, view)]
        entries = {job.name: self._entry(job, view.now_ns, turns) for job in waiting}
        if self.order is Order.PACK and not any(entry[0] <= _AGED for entry in entries.values()):
            lanes = lanes.spread()
        idle = bool(waiting and long_idle_servers(view))
        for turn, job in enumerate(sorted(waiting, key=lambda job: entries[job.name])):
            aged = entries[job.name][0] <= _AGED
            whole = self.order is Order.FIFO and self._busy(lanes, view.now_ns) and not job.evicted  # it does not share
            if whole and not aged:
                break
            pressing = (aged or job.kind is INFERENCE) and not whole
            share = pressing or self.order is not Order.PACK
            placed = None if whole else lanes.place(job, self._most_lanes, share=share)
            if placed is None and pressing:
                lanes = lanes.make_room(job)
                placed = lanes.place(job, self._most_lanes)
            if placed is None and idle and not whole and expects_work(job):
                placed = self._instead_of_idle(lanes, job, view.now_ns)
            if placed is None and turn == 0 and (aged or (self.order is Order.SRTF and not endless(job))):
                everyone = [each for jobs in lanes.members.values() for each in jobs]
                others = [(self._entry(each, view.now_ns, turns), each) for each in everyone]
                placed = self._displace(lanes, job, entries[job.name], others, view.now_ns)
            if placed is None and aged:
                break  # no job passes it
            lanes = placed or lanes
        return lanes

    @property
    def _most_lanes(self) -> int | None:
        return None if self.order is Order.PACK else 1

    def _busy(self, lanes: Lanes, now_ns: int) -> bool:
        """Whether a job is on the device, other than servers that are long idle."""
        return any(not long_idle(job, now_ns) for jobs in lanes.members.values() for job in jobs)

    def _may_run(self, job: JobView, view: View) -> bool:
        """Whether the job wants a place: not if it is larger than the budget, or suspended without work."""
        if job.profile.peak_bytes > view.budget_bytes:
            return False
        return job.state is QUEUED or expects_work(job)

    def _instead_of_idle(self, lanes: Lanes, job: JobView, now_ns: int) -> Lanes | None:
        """The lanes with the job in the place of the fewest servers that are long idle, longest idle first."""
        idle = [each for jobs in lanes.members.values() for each in jobs if long_idle(each, now_ns)]
        for each in sorted(idle, key=lambda each: each.since_ns):
            lanes = lanes.without(each)
            if (placed := lanes.make_room(job).place(job, self._most_lanes)) is not None:
                return placed
        return None

    def _displace(
        self,
        lanes: Lanes,
        job: JobView,
        entry: tuple[float, ...],
        others: Sequence[tuple[tuple[float, ...], JobView]],
        now_ns: int,
    ) -> Lanes | None:
        """The lanes with the job in the place of jobs between iterations, last in the order first.

        None unless the job comes before all others. One whose turn it is displaces no job that has come this moment:
        that job would then have the turn, and the two would change places for ever.
        """
        if any(other <= entry for other, _ in others):  # equals would displace each other for ever
            return None
        for _, each in sorted(others, key=lambda other: other[0], reverse=True):
            stays = entry[0] == _OVERDUE and each.lane_since_ns == now_ns
            if not in_iteration(each) and not each.finishing and not stays:
                lanes = lanes.without(each).make_room(job)
                if (placed := lanes.place(job, self._most_lanes)) is not None:
                    return placed
        return None

    def _entry(self, job: JobView, now_ns: int, turns: frozenset[str]) -> tuple[float, ...]:
        """The key by which jobs are admitted, smallest first."""
        if job.name in turns:
            return (_OVERDUE, -job.priority, job.since_ns)
        if job.evicted:  # no job takes its place before the engine restores it
            return (_AGED, -job.priority, job.arrived_ns)
        if self.order is Order.FIFO:
            return (_IN_TURN, -job.priority, job.arrived_ns)
        if self._aged(job, now_ns):
            return (_AGED, -job.priority, job.arrived_ns)
        if self.order is Order.SRTF:
            return (_IN_TURN, -job.priority, *self._remaining(job))
        return (_IN_TURN, -job.priority, job.arrived_ns)

    def _with_turns(self, view: View) -> frozenset[str]:
        """The jobs whose turn it is among jobs that do not fit together."""
        if not view.away:
            return frozenset()
        inside = view.admitted
        without_end = [other for other in inside if endless(other)]
        found = set(with_turns(view))
        for job in view.away if view.has_priorities else ():
            may_leave = inside if job.state is SUSPENDED else without_end
            if any(leaves_for(other, job) for other in may_leave if other.priority < job.priority):
                found.add(job.name)
        if self.order is Order.FIFO or without_end:
            turns, waiting = Turns.of(view), view.away if without_end else view.suspended
            found |= {job.name for job in waiting if turns.overdue(job, equals=True)}
        return frozenset(found)

    def _aged(self, job: JobView, now_ns: int) -> bool:
        unknown, remaining_ns = self._remaining(job)
        length_ns = max(self.short_ns, job.service_ns + (0 if unknown else remaining_ns))
        return now_ns - job.arrived_ns > self.patience * length_ns

    # --- turns

    def _turn(self, job: JobView, now_ns: int, turns: frozenset[str]) -> tuple[float, ...]:
        """The key by which jobs of a lane take turns, smallest first; of equals, the one that arrived first."""
        match self.order:
            case Order.FAIR:
                return (*due(job), job.share_ns)
            case Order.ROUND_ROBIN:
                return (*due(job), job.started_ns)
            case Order.PACK if not self._aged(job, now_ns):
                unknown, remaining_ns = self._remaining(job)
                left_ns = remaining_ns if unknown else -remaining_ns
                return (_IN_TURN, *due(job), job.kind is TRAINING, -unknown, left_ns)
        tier, _, *rest = self._entry(job, now_ns, turns)
        return (tier, *due(job), *rest)

    def _remaining(self, job: JobView) -> tuple[bool, int]:
        """(False, device time to the job's end), or (True, device time so far) if the end is unknown."""
        if job.kind is INFERENCE:
            return False, -(-len(job.requests) // job.profile.batch) * job.profile.solo_ns
        left_ns = job.remaining_ns
        return (True, job.share_ns) if not left_ns else (False, left_ns)


def _changes(view: View, lane_of: Mapping[str, int]) -> list[Action]:
    """The actions that suspend, admit and resume jobs and change lanes, to reach these lanes."""
    actions: list[Action] = [Suspend(job.name) for job in view.admitted if job.name not in lane_of]
    for job in view.jobs:
        lane = lane_of.get(job.name)
        if lane is None or job.evicted:
            continue
        if job.state is QUEUED:
            actions.append(Admit(job.name, lane))
            continue
        if job.state is SUSPENDED:
            actions.append(Resume(job.name))
        if job.lane != lane:
            actions.append(MoveLane(job.name, lane))
    return actions
