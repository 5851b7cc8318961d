"""SwitchFlow (preemptive multitasking): the device never works for two jobs at once, while their host work overlaps.

Jobs launch their iterations side by side; the device passes the ops of one job, its owner, and the others wait before
closed gates. A job with a deadline takes the device over at the next op of the owner. SwitchFlow moves a preempted job
to another device or the CPU if there is one; here it waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Resume, SetGate, Start
from neaptide.core.control.job import RUNNING
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.admission import admit_in_order, resumable
from neaptide.policies.parts.deadlines import has_deadline
from neaptide.policies.parts.idle import asked_again
from neaptide.policies.parts.turns import swap


@dataclass(frozen=True)
class SwitchFlow(Policy):
    """The owner is the oldest iteration of a job with a deadline, else the oldest iteration.

    An iteration begins as soon as its memory fits beside that of the iterations that have begun: one that waits for the
    device must not keep memory from the owner. Jobs whose last iteration ended first begin first.
    """

    name = "switchflow"
    needs = frozenset({Need.GATE, Need.SUSPEND})

    def decide(self, view: View) -> Sequence[Action]:
        if not view.running and (turn := swap(view)):
            return turn
        actions, ready = admit_in_order(view)
        actions += [Resume(job.name) for job in resumable(view)]
        running, starts = list(view.running), []
        inside = view.persistent_bytes + sum(job.profile.persistent_bytes for job in ready if not job.admitted)
        left = view.budget_bytes - inside - sum(job.profile.ephemeral_bytes for job in running)
        for job in sorted(ready, key=lambda job: (not has_deadline(job), job.since_ns)):
            if job.profile.ephemeral_bytes <= left or not running:
                left -= job.profile.ephemeral_bytes
                running.append(job)
                starts.append(Start(job.name))
        owner = min(running, key=_claim, default=None)
        closing = [SetGate(job.name, False, holds_light=True) for job in running if job.gate_open and job is not owner]
        opening = [SetGate(job.name, True, holds_light=True) for job in running if not job.gate_open and job is owner]
        # A gate closes before its job begins, and opens when the others are closed: never two jobs, not even briefly.
        return asked_again([*actions, *closing, *starts, *opening], view)


def _claim(job: JobView) -> tuple[bool, bool, int]:
    """The order in which jobs own the device; an iteration that begins now is the youngest."""
    return not has_deadline(job), job.state is not RUNNING, job.started_ns
