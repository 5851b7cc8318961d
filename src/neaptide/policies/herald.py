"""Herald (SLO-aware space-time sharing): inference with an SLO goes first, light ops of other jobs run beside it, and
heavy ones take turns with it.

The paper does not publish its thresholds; the fields below are ours. The bound on best-effort work in flight is
Orion's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, CapInFlight, SetGate, Start, WakeAt
from neaptide.core.control.job import JobKind, JobState
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.in_flight import DEFAULT_IN_FLIGHT
from neaptide.policies.parts.precedence import Precedence, in_turn


@dataclass(frozen=True)
class Herald(Policy):
    """Slack is the time that samples of an SLO-bound job can still lose: time to the deadline less the remaining work.

    A batch starts when it is full, or when waiting longer would bring its slack below the share `urgent` of the
    deadline if it lost as much time beside other jobs as the last batch did; but it waits for samples for at least half
    of the time it has. So batches are as full as the deadline allows. Best-effort heavy ops run beside a batch while
    its slack is above `urgent`; below, they wait, and no best-effort iteration starts until the batch is done.
    Best-effort kernels in flight take at most the share `in_flight` of the slack.
    """

    name = "herald"
    needs = frozenset({Need.ITERATION_TIME, Need.PROGRESS, Need.DEADLINE, Need.GATE, Need.SUSPEND})
    urgent: float = 0.1
    in_flight: float = 0.05
    shortest_wait_ns: int = 1_000_000

    def decide(self, view: View) -> Sequence[Action]:
        jobs = in_turn(view)
        bound = [job for job in jobs if job.kind is JobKind.INFERENCE and job.deadline_ns is not None]
        rest = [job for job in jobs if job not in bound]
        order = Precedence(view, bound, rest)
        slacks = [left for job in bound if job.admitted and (left := slack_ns(job, view.now_ns)) is not None]
        urgent = any(slack < self.urgent * deadline for slack, deadline in slacks)
        ready = [job for job in order.ready(bound) if self._due(job, view.now_ns)]
        actions: list[Action] = [*order.moves, *(Start(job.name) for job in ready)]
        for job in rest:
            if job.admitted and job.gate_open == urgent:
                actions.append(SetGate(job.name, not urgent))
            cap = self._cap(job, min((slack for slack, _ in slacks), default=None))
            if job.admitted and job.in_flight != cap:
                actions.append(CapInFlight(job.name, cap))
        if not urgent:
            actions += [Start(job.name) for job in order.beside]
        return actions + self._wake(bound, view.now_ns)

    def _due(self, job: JobView, now_ns: int) -> bool:
        """Whether the waiting batch should start now."""
        return len(job.requests) >= job.profile.batch or self._wait_ns(job, now_ns) <= 0

    def _wait_ns(self, job: JobView, now_ns: int) -> float:
        """Time until a waiting batch is due, or until a running one may become urgent."""
        left = slack_ns(job, now_ns)
        if left is None:
            return 0
        slack, deadline = left
        wait = slack - self.urgent * deadline
        if job.state is JobState.RUNNING:
            return wait
        room = (1 - self.urgent) * deadline - job.profile.solo_ns  # slack of a sample that has just arrived
        return wait - max(min(job.recent_ns - job.profile.solo_ns, room / 2), 0)

    def _cap(self, job: JobView, slack: int | None) -> int | None:
        """The cap on kernels in flight: a power of two, so that it seldom changes."""
        if slack is None:
            return None
        kernels = int(self.in_flight * max(slack, 0) * job.profile.kernels / max(job.profile.solo_ns, 1))
        return None if kernels >= DEFAULT_IN_FLIGHT else 1 << max(kernels.bit_length() - 1, 0)

    def _wake(self, bound: Sequence[JobView], now_ns: int) -> list[Action]:
        """Wakes the policy when a batch is due or may become urgent: slack shrinks by at most the time that passes."""
        waits = [wait for job in bound if job.admitted and (wait := self._wait_ns(job, now_ns)) > 0]
        return [WakeAt(now_ns + max(math.ceil(min(waits)), self.shortest_wait_ns))] if waits else []


def slack_ns(job: JobView, now_ns: int) -> tuple[int, int] | None:
    """The least slack of a job's samples, and their deadline; None when the job has no sample."""
    if job.deadline_ns is None or not (job.serving or job.requests):
        return None
    done_ns, batch = now_ns, job.profile.batch
    slacks: list[int] = []
    if job.state is JobState.RUNNING:
        done_ns += max(job.profile.solo_ns - job.position_ns, 0)
        slacks += [arrived + job.deadline_ns - done_ns for arrived in job.serving[:1]]
    for arrived in job.requests[::batch]:
        done_ns += job.profile.solo_ns
        slacks.append(arrived + job.deadline_ns - done_ns)
    return min(slacks), job.deadline_ns
