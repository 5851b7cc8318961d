"""Taking turns: one iteration at a time (Zico's ideal baseline, no cost for a switch), or one job at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Start
from neaptide.core.control.job import JobState
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View
from neaptide.policies.parts.admission import admit_in_turn, has_work


@dataclass(frozen=True)
class Temporal(Policy):
    """The admitted jobs run an iteration each in turn: next is the one whose last iteration ended first.

    Jobs are admitted in the order of arrival, as many as fit by the ledger's rule.
    """

    name = "temporal"

    def decide(self, view: View) -> Sequence[Action]:
        actions, ready = admit_in_turn(view)
        if ready and not view.running:
            actions.append(Start(min(ready, key=lambda job: job.since_ns).name))
        return actions


@dataclass(frozen=True)
class Fifo(Policy):
    """One job holds the device from its arrival in the queue's head to its end.

    A job that is larger than the budget holds nobody up.
    """

    name = "fifo"

    def decide(self, view: View) -> Sequence[Action]:
        inside = view.in_state(JobState.READY, JobState.RUNNING, JobState.SUSPENDED)
        if inside:
            return [Start(job.name) for job in inside if job.wants_to_run]
        head = next((job for job in view.queued if job.profile.peak_bytes <= view.budget_bytes), None)
        if head is None:
            return []
        return [Admit(head.name), *([Start(head.name)] if has_work(head) else [])]
