"""AntMan (OSDI'20): a guaranteed job runs as if it were alone; opportunistic jobs use only what it leaves free.

In the paper an opportunistic job's limit of memory changes between two mini-batches, the tensors that do not fit go to
the host and return when there is room, and its kernels are delayed. Here a job with plans takes one that fits, a gate
holds its heavy ops, and a job without such a plan is suspended between iterations as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from neaptide.core.control.actions import Action, SetGate, SetPlan, Start
from neaptide.core.control.job import QUEUED, READY, RUNNING
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.admission import Together
from neaptide.policies.parts.idle import asked_again, long_idle_servers
from neaptide.policies.parts.precedence import Precedence, in_turn


@dataclass(frozen=True)
class AntMan(Policy):
    """The guaranteed job is the one with the highest priority, of equals the oldest. Its whole peak is reserved.

    The other jobs run beside it in the remaining memory. A job that does not fit there takes, between iterations, the
    fastest of its plans that does: it sends the overflow to the host. It takes its first plan again when there is room.
    If no plan fits, it is suspended at the end of its iteration. While the guaranteed job's iterations have so far
    taken more than `bound` times their time alone, the other jobs' heavy ops wait and they start no iteration.
    """

    name = "antman"
    needs = frozenset({Need.ITERATION_TIME, Need.PROGRESS, Need.SUSPEND, Need.GATE})
    bound: float = 1.1  # ours: the paper gives no figure

    def decide(self, view: View) -> Sequence[Action]:
        ranks = in_turn(view)
        if not ranks:
            return []
        idle = long_idle_servers(view)
        guaranteed = max([job for job in ranks if job not in idle] or ranks, key=lambda job: job.priority)
        plans = self._plans(ranks, guaranteed, view.budget_bytes)
        changed = [job for job in ranks if plans.get(job.name, job.plan) != job.plan]
        smaller = [job for job in changed if job.plans[plans[job.name]].peak_bytes < job.profile.peak_bytes]
        larger = [job for job in changed if job not in smaller]
        if changed:
            named = {job.name: job.following(plans.get(job.name, job.plan)) for job in view.jobs}
            view = replace(view, jobs=tuple(named.values()))
            ranks, guaranteed = [named[job.name] for job in ranks], named[guaranteed.name]

        order = Precedence(view, [guaranteed], [job for job in ranks if job is not guaranteed])
        held = self._slowed(guaranteed, view.now_ns)
        # No gate for the guaranteed job, nor for a job without a place beside it, which is to end its iteration soon.
        behind_gates = order.kept if held else []
        gates = [(job, job not in behind_gates) for job in ranks if job.admitted]
        actions: list[Action] = [
            *[SetGate(job.name, is_open) for job, is_open in gates if job.gate_open is not is_open],
            *[SetPlan(job.name, plans[job.name]) for job in smaller],  # first: they make room for jobs that come in
            *order.moves,
            *[SetPlan(job.name, plans[job.name]) for job in larger],
            *[Start(job.name) for job in order.ready([guaranteed])],
        ]
        actions += [] if held else [Start(job.name) for job in order.beside]
        return asked_again(actions, view)

    def _plans(self, ranks: Sequence[JobView], guaranteed: JobView, budget_bytes: int) -> dict[str, int]:
        """The plan of each job: the guaranteed one's first, and for the others the fastest that fits beside it.

        Empty if no job has a choice.
        """
        if max([len(job.plans) for job in ranks]) == 1:
            return {}
        plans = {job.name: job.plan for job in ranks}
        if _between_iterations(guaranteed) and guaranteed.plans[0].peak_bytes <= budget_bytes:
            plans[guaranteed.name] = 0
        left_bytes = budget_bytes - guaranteed.plans[plans[guaranteed.name]].peak_bytes
        together = Together()
        for job in (job for job in ranks if job is not guaranteed):
            choice = range(len(job.plans)) if _between_iterations(job) else [job.plan]
            fitting = [plan for plan in choice if together.fits_with(job.plans[plan], left_bytes)]
            if fitting:
                plans[job.name] = min(fitting, key=lambda plan: job.plans[plan].solo_ns)
                together.add(job.plans[plans[job.name]])
        return plans

    def _slowed(self, guaranteed: JobView, now_ns: int) -> bool:
        """Whether the guaranteed job runs, or could, and has fallen behind."""
        took_ns, alone_ns = guaranteed.busy_ns, guaranteed.service_ns
        if guaranteed.state is RUNNING:
            took_ns += now_ns - guaranteed.started_ns
            alone_ns += guaranteed.position_ns
        elif not guaranteed.wants_to_run:
            return False
        return took_ns > self.bound * alone_ns > 0


def _between_iterations(job: JobView) -> bool:
    return job.state in (READY, QUEUED)
