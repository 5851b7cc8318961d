"""Zico (ATC'21): delay each iteration as little as needed to keep the sum of all memory curves within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, Admit, Resume, Start, Suspend, WakeAt
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import View
from neaptide.policies.parts.admission import has_work, may_come_back, may_come_in, too_many
from neaptide.policies.parts.ageing import make_way
from neaptide.policies.parts.stagger import Stagger, caps


@dataclass(frozen=True)
class Zico(Policy):
    """An iteration starts after the smallest delay d for which all curves together stay within the budget.

    The curves: persistent bytes of every admitted job, what is left of each running iteration from the device's
    position in it on, and the iteration's own curve shifted by d. If d is zero it starts; else the policy asks again
    after d, and at every event before, with the progress made until then. Kernels in flight are capped while the peaks
    do not fit together, because launching ahead allocates ahead. Waiting jobs are fitted in the order in which their
    last iterations ended, and nobody delays one that is before it (Stagger).

    Our own choices, where the paper's are unknown. Curves are those of an iteration run alone, not stretched by the
    slowdown beside others: iterations that share a device slow down together, so their curves keep their alignment, and
    a delay that was too short shows in the progress when it has passed. Where one slows down more than another, the
    engine holds back the younger one's allocations. Therefore a d shorter than `early` of the iteration is not waited
    for: what it can do before it must wait, it does beside the others. When the budget shrinks so far that an admitted
    job could not run even alone, the youngest go to host memory until it grows, others end, or they are overdue.
    """

    name = "zico"
    needs = frozenset({Need.CURVE, Need.PROGRESS, Need.SUSPEND})
    in_flight: int = 64  # at most, and a sixteenth of an iteration's kernels
    early: float = 0.5
    behind: int = 2

    def decide(self, view: View) -> Sequence[Action]:
        if leave := too_many(view):
            return [Suspend(job.name) for job in leave]
        if swap := make_way(view):
            job, leave = swap
            return [*(Suspend(other.name) for other in leave), *([] if job.evicted else [Resume(job.name)])]
        back, let_in = may_come_back(view), may_come_in(view, view.queued)
        actions: list[Action] = [Resume(job.name) for job in back]
        actions += [Admit(job.name) for job in let_in]
        inside = view.admitted + back + let_in
        actions += caps(inside, view.budget_bytes, self.in_flight)
        waiting = view.startable + [job for job in let_in if has_work(job)]
        free_bytes = view.budget_bytes - sum(job.profile.persistent_bytes for job in inside)
        stagger = Stagger(self.in_flight, self.early, self.behind)
        starts, delay_ns = stagger.plan(sorted(waiting, key=lambda job: job.since_ns), view.running, free_bytes)
        actions += [Start(job.name) for job in starts]
        if delay_ns is not None:
            actions.append(WakeAt(view.now_ns + delay_ns))
        return actions
