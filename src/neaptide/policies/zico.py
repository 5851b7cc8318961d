"""Zico (ATC'21): each iteration is delayed just enough to keep the sum of all memory curves within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Resume, Start, Suspend, WakeAt
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import View
from neaptide.policies.parts.admission import admissible, has_work, over_budget, resumable
from neaptide.policies.parts.idle import asked_again
from neaptide.policies.parts.stagger import Stagger, caps
from neaptide.policies.parts.turns import swap


@dataclass(frozen=True)
class Zico(Policy):
    """An iteration starts after the smallest delay d for which all curves together stay within the budget.

    The curves are the persistent bytes of every admitted job, the rest of each running iteration from the device's
    position on, and the iteration's own curve shifted by d. If d is zero, the iteration starts; else the policy decides
    again after d, and at every event before that. Kernels in flight are capped while the peaks do not fit together,
    because launching ahead allocates ahead. Waiting jobs are tried in the order in which their last iterations ended,
    and no job delays one before it (parts/stagger.py).

    Where the paper gives no rule, these are ours. Beside each other iterations slow down by different factors: the new
    iteration's curve is put on the clock of the running ones by the factors of the last iterations. What a running
    iteration will hold at its peak is kept for it before, so a younger one does not use that room: it would stall in
    the middle of its iteration. An iteration also stalls if these factors were wrong; the next decision has better
    ones. After a budget cut under which an admitted job could not run, the youngest jobs are suspended until they fit
    again. Jobs that do not fit together take turns where no end of the one on the device can be waited for
    (parts/turns.py).
    """

    name = "zico"
    needs = frozenset({Need.CURVE, Need.PROGRESS, Need.SUSPEND})
    in_flight: int = 64  # most kernels in flight, and at most a sixteenth of an iteration's
    behind: int = 2  # jobs tried after the first that must wait; the paper has two jobs

    def decide(self, view: View) -> Sequence[Action]:
        if leave := over_budget(view):
            return [Suspend(job.name) for job in leave]
        if turn := swap(view):
            return turn
        back, admitted = resumable(view), admissible(view, view.queued)
        actions: list[Action] = [Resume(job.name) for job in back]
        actions += [Admit(job.name) for job in admitted]
        inside = view.admitted + back + admitted
        actions += caps(inside, view.budget_bytes, self.in_flight)
        waiting = view.startable + [job for job in admitted if has_work(job)]
        free_bytes = view.budget_bytes - sum(job.profile.persistent_bytes for job in inside)
        stagger = Stagger(self.in_flight, 0.0, self.behind)
        starts, delay_ns = stagger.plan(sorted(waiting, key=lambda job: job.since_ns), view.running, free_bytes)
        actions += [Start(job.name) for job in starts]
        if delay_ns is not None:
            actions.append(WakeAt(view.now_ns + delay_ns))
        return asked_again(actions, view)
