"""Wavelet's tick-tock (MLSys'21): of two jobs, the forward pass of one runs beside the backward pass of the other.

The second job (the tock) takes the memory that the first (the tick) releases in its backward pass. The rule looks only
at phases, not at bytes or seconds: it suits two replicas of one model, and wastes time when jobs differ (Zico).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Resume, SetGate, Start
from neaptide.core.control.events import PhaseEnded
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.core.traces.trace import Phase
from neaptide.policies.parts.admission import admit_in_order, resumable
from neaptide.policies.parts.idle import asked_again
from neaptide.policies.parts.turns import swap


@dataclass(frozen=True)
class TickTock(Policy):
    """At most two iterations at once, never both in the forward or both in the backward pass.

    An iteration starts right after the other one's forward pass. If it reaches its backward pass while the other is
    still in its own (optimizer included), a gate holds its heavy ops until the other iteration has ended. With more
    than two jobs, the next to start is the one whose last iteration ended first. Jobs that do not fit together take
    turns on the device where no end of the one on it can be waited for (parts/turns.py).
    """

    name = "ticktock"
    needs = frozenset({Need.PROGRESS, Need.PHASES, Need.GATE, Need.SUSPEND})

    def decide(self, view: View) -> Sequence[Action]:
        if turn := swap(view):
            return turn
        actions, ready = admit_in_order(view)
        actions += [Resume(job.name) for job in resumable(view)]
        running = sorted(view.running, key=lambda job: job.started_ns)
        in_forward = [job for job in running if _in_forward(job, view)]
        tock_waits = len(running) == 2 and not in_forward
        for job in view.admitted:
            wanted = not (tock_waits and job is running[1])
            if job.gate_open is not wanted:
                actions.append(SetGate(job.name, open=wanted))
        if ready and len(running) < 2 and not in_forward:
            actions.append(Start(min(ready, key=lambda job: job.since_ns).name))
        return asked_again(actions, view)


def _in_forward(job: JobView, view: View) -> bool:
    event = view.event
    if isinstance(event, PhaseEnded) and event.job == job.name and event.phase is not Phase.OPTIMIZER:
        return False
    return job.position_ns < job.profile.forward_ns
