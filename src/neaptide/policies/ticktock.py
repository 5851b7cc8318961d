"""Wavelet's tick-tock (MLSys'21): two waves, the tock's forward pass beside the tick's backward pass.

What memory the tick gives back in its backward pass the tock takes in its forward pass. The rule looks at phases alone,
not at bytes or seconds: that is right for two replicas of one model, and wastes time when jobs differ (Zico).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, SetGate, Start
from neaptide.core.control.events import PhaseEnded
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.core.traces.trace import Phase
from neaptide.policies.parts.admission import admit_in_turn


@dataclass(frozen=True)
class TickTock(Policy):
    """At most two iterations at once, never both in the forward or both in the backward pass.

    An iteration starts right after the other's forward pass has ended. If it comes to its own backward pass while the
    other is still in its one (optimizer included), its heavy ops are held until the other has ended; light ones pass,
    as they pass every gate. Of more than two jobs, the next to start is the one whose last iteration ended first.
    """

    name = "ticktock"
    needs = frozenset({Need.PROGRESS, Need.PHASES, Need.GATE})

    def decide(self, view: View) -> Sequence[Action]:
        actions, ready = admit_in_turn(view)
        running = sorted(view.running, key=lambda job: job.started_ns)
        in_forward = [job for job in running if _in_forward(job, view)]
        tock_waits = len(running) == 2 and not in_forward
        for job in view.admitted:
            wanted = not (tock_waits and job is running[1])
            if job.gate_open is not wanted:
                actions.append(SetGate(job.name, open=wanted))
        if ready and len(running) < 2 and not in_forward:
            actions.append(Start(min(ready, key=lambda job: job.since_ns).name))
        return actions


def _in_forward(job: JobView, view: View) -> bool:
    event = view.event
    if isinstance(event, PhaseEnded) and event.job == job.name and event.phase is not Phase.OPTIMIZER:
        return False
    return job.position_ns < job.profile.forward_ns
