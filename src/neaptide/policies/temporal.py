"""Taking turns: one iteration at a time (`temporal`, Zico's ideal baseline without switching cost), or one job at a
time (`fifo`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Resume, Start
from neaptide.core.control.job import READY, RUNNING, SUSPENDED
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import View
from neaptide.policies.parts.admission import admit_in_order, has_work, resumable
from neaptide.policies.parts.idle import asked_again
from neaptide.policies.parts.turns import swap


@dataclass(frozen=True)
class Temporal(Policy):
    """The admitted jobs run one iteration each in turn; the next is the one whose last iteration ended first.

    Jobs are admitted in the order of arrival, as many as fit by the ledger's rule. Jobs that do not fit together take
    turns on the device where no end of the one on it can be waited for (parts/turns.py).
    """

    name = "temporal"
    needs = frozenset({Need.SUSPEND})

    def decide(self, view: View) -> Sequence[Action]:
        idle = not view.running
        if idle and (turn := swap(view)):
            return turn
        actions, ready = admit_in_order(view)
        actions += [Resume(job.name) for job in resumable(view)]
        if idle and ready:
            actions.append(Start(min(ready, key=lambda job: job.since_ns).name))
        return asked_again(actions, view)


@dataclass(frozen=True)
class Fifo(Policy):
    """The first job in the queue has the device until it ends. A job that is larger than the budget is skipped."""

    name = "fifo"

    def decide(self, view: View) -> Sequence[Action]:
        inside = view.in_state(READY, RUNNING, SUSPENDED)
        if inside:
            return [Start(job.name) for job in inside if job.wants_to_run]
        head = next((job for job in view.queued if job.profile.peak_bytes <= view.budget_bytes), None)
        if head is None:
            return []
        return [Admit(head.name), *([Start(head.name)] if has_work(head) else [])]
