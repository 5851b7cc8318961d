"""AntMan (OSDI'20): a guaranteed job runs as if it were alone; opportunistic jobs use only what it leaves free.

In the paper an opportunistic job's limit of memory changes between two mini-batches, the tensors that do not fit go to
the host and return when there is room, and its kernels are delayed. Here its limit changes between iterations, too, on
a device that has overflow, and a gate holds its heavy ops. On another device a job takes a plan that fits, or is
suspended between iterations as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from neaptide.core.control.actions import Action, SetGate, SetLimit, SetPlan, Start
from neaptide.core.control.job import QUEUED, READY, RUNNING, SUSPENDED
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.core.rules.admission import Together, spare_bytes
from neaptide.policies.parts.admission import places
from neaptide.policies.parts.idle import asked_again, long_idle_servers
from neaptide.policies.parts.precedence import Precedence, in_turn


@dataclass(frozen=True)
class AntMan(Policy):
    """The guaranteed job is the one with the highest priority, of equals the oldest. Its whole peak is reserved.

    The other jobs run beside it in the remaining memory. A job that does not fit there takes, between iterations, the
    fastest of its plans that does. If none does, and its priority is lower, it is limited to what is left, and the rest
    of its iteration overflows to the host. Plan and limit go again when there is room. If not even its persistent bytes
    fit, or the device has no overflow, it is suspended at the end of its iteration. So is a job of the guaranteed one's
    priority, which is no opportunistic one: with a limit it would never have a turn in which it is as fast as alone.
    While the guaranteed job's iterations have so far taken more than `bound` times their time alone, the other jobs'
    heavy ops wait and they start no iteration.
    """

    name = "antman"
    needs = frozenset({Need.ITERATION_TIME, Need.PROGRESS, Need.SUSPEND, Need.GATE})
    bound: float = 1.1  # ours: the paper gives no figure

    def decide(self, view: View) -> Sequence[Action]:
        ranks = in_turn(view)
        if not ranks:
            return []
        idle = long_idle_servers(view)
        first = max([job for job in ranks if job not in idle] or ranks, key=lambda job: job.priority)
        guaranteed, before, after = first, list[Action](), list[Action]()
        if _may_change(ranks, view):
            named = {job.name: job for job in self._fitted(ranks, first, view)}
            smaller = [job for job in ranks if named[job.name].profile.peak_bytes < job.profile.peak_bytes]
            # A job that is away holds nothing, so it changes before it comes. Others shrink first, which makes room.
            early = [job for job in ranks if job in smaller or not job.admitted]
            before = [change for job in early for change in _changes(job, named[job.name])]
            after = [change for job in ranks if job not in early for change in _changes(job, named[job.name])]
            guaranteed = named[first.name]
        if before or after:
            view = replace(view, jobs=tuple(named.get(job.name, job) for job in view.jobs))
            ranks = [named[job.name] for job in ranks]

        order = Precedence(view, [guaranteed], [job for job in ranks if job is not guaranteed])
        held = self._slowed(guaranteed, view.now_ns)
        # No gate for the guaranteed job, nor for a job without a place beside it, which is to end its iteration soon.
        behind_gates = order.kept if held else []
        gates = [(job, job not in behind_gates) for job in ranks if job.admitted]
        actions: list[Action] = [
            *[SetGate(job.name, is_open) for job, is_open in gates if job.gate_open is not is_open],
            *before,
            *order.moves,
            *(after if _fit(order) else []),
            *[Start(job.name) for job in order.ready([guaranteed])],
        ]
        actions += [] if held else [Start(job.name) for job in order.beside]
        return asked_again(actions, view)

    def _fitted(self, ranks: Sequence[JobView], guaranteed: JobView, view: View) -> list[JobView]:
        """Each job with the plan and the limit that it is to have: the guaranteed one with its first and none."""
        first = guaranteed
        if _between_iterations(guaranteed) and guaranteed.plans[0].peak_bytes <= view.budget_bytes:
            first = _changed(guaranteed, 0)
        left_bytes, together, fitted = view.budget_bytes - first.profile.peak_bytes, Together(), [first]
        for job in (job for job in ranks if job is not guaranteed):
            overflow = view.overflow and job.priority < guaranteed.priority
            fitted.append(_beside(job, together, left_bytes, overflow) if _between_iterations(job) else job)
            if together.fits_with(fitted[-1].profile, left_bytes):
                together.add(fitted[-1].profile)
        return fitted

    def _slowed(self, guaranteed: JobView, now_ns: int) -> bool:
        """Whether the guaranteed job runs, or could, and has fallen behind."""
        took_ns, alone_ns = guaranteed.busy_ns, guaranteed.service_ns
        if guaranteed.state is RUNNING:
            took_ns += now_ns - guaranteed.started_ns
            alone_ns += guaranteed.position_ns
        elif not guaranteed.wants_to_run:
            return False
        return took_ns > self.bound * alone_ns > 0


def _fit(order: Precedence) -> bool:
    """Whether all jobs on the device fit as they are to be: not while iterations hold more, after a budget cut."""
    leaving = [job for job in order.view.admitted if job.name in order.going]
    coming = [job.profile for job in order.view.away if job.name in order.coming]
    return spare_bytes([*places(order.view, leaving), *coming], order.view.budget_bytes) >= 0


def _may_change(jobs: Sequence[JobView], view: View) -> bool:
    """Whether a job can get another plan or limit: most have one plan, and only a lower priority is limited."""
    if view.overflow and view.has_priorities:
        return True
    return bool([job for job in jobs if len(job.plans) > 1 or job.limit_bytes is not None])


def _beside(job: JobView, together: Together, left_bytes: int, overflow: bool) -> JobView:
    """The job with its fastest plan that fits beside others, or with a limit that fits, or as it is if neither does."""
    fitting = [plan for plan, profile in enumerate(job.plans) if together.fits_with(profile, left_bytes)]
    if fitting:
        return _changed(job, min(fitting, key=lambda plan: job.plans[plan].solo_ns))
    persistent_bytes = job.profile.persistent_bytes
    room_bytes = left_bytes - together.persistent_bytes - persistent_bytes
    limited = overflow and room_bytes >= together.ephemeral_bytes
    return _changed(job, job.plan, persistent_bytes + room_bytes) if limited else job


def _changed(job: JobView, plan: int, limit_bytes: int | None = None) -> JobView:
    """The job under this plan and this limit; itself if it has them already."""
    same = job.plan == plan and job.limit_bytes == limit_bytes
    return job if same else job.following(plan, limit_bytes)


def _changes(job: JobView, to: JobView) -> list[Action]:
    """The actions that give a job its plan and its limit. The plan comes first: it always fits under the old limit."""
    changes: list[Action] = [] if job.plan == to.plan else [SetPlan(job.name, to.plan)]
    return changes if job.limit_bytes == to.limit_bytes else [*changes, SetLimit(job.name, to.limit_bytes)]


def _between_iterations(job: JobView) -> bool:
    """Whether it may get another plan or limit: also where this policy has suspended it, between two turns."""
    return job.state in (READY, QUEUED) or (job.state is SUSPENDED and not job.evicted)
