"""Herald (SLO-aware space-time sharing): light ops run beside others, and heavy ops are time-shared op by op, those of
inference with an SLO first.

Which op is light is known from the data-flow graph: the share of the device that it uses (core/rules/heavy). The paper
does not publish its threshold. The bound on best-effort work in flight is Orion's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, SetGate, Start, WakeAt
from neaptide.core.control.job import RUNNING, SUSPENDED
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import View
from neaptide.policies.parts.deadlines import bound_in_flight, has_deadline, put_first
from neaptide.policies.parts.idle import asked_again, long_idle_servers
from neaptide.policies.parts.precedence import Precedence, in_turn
from neaptide.policies.parts.shares import Competition
from neaptide.policies.parts.slack import NEVER, Slack


@dataclass(frozen=True)
class Herald(Policy):
    """While a batch of a job with an SLO runs, heavy ops of other jobs wait, from the next op on; light ones pass.

    Of ops that wait for the device, those of the batch go first (the deadline class, where the device has it). A batch
    starts when it is full, or when waiting longer for samples is unsafe: with the share `spare` of the deadline left
    over, if it takes as long as the last one.
    """

    name = "herald"
    needs = frozenset({Need.ITERATION_TIME, Need.DEADLINE, Need.GATE, Need.SUSPEND})
    spare: float = 0.1
    shortest_wait_ns: int = 1_000_000

    def decide(self, view: View) -> Sequence[Action]:
        jobs = in_turn(view)
        idle = long_idle_servers(view)
        rest = [job for job in jobs if not has_deadline(job)]
        bound = [job for job in jobs if has_deadline(job) and job not in idle]
        order, slack = Precedence(view, bound, [job for job in jobs if job not in bound]), Slack(self.spare)
        here = [job for job in bound if job.admitted or job.name in order.coming]
        ready = order.ready(bound)
        due = [job for job in ready if slack.serve_at_ns(job) <= view.now_ns]
        competition = Competition([job for job in order.kept if job.state is not SUSPENDED], view.now_ns)
        actions = [*order.moves, *put_first(here), *[Start(job.name) for job in due]]
        serves = bool(due) or any(job.state is RUNNING for job in bound)
        staying = [job for job in rest if job.admitted and job.name not in order.going]
        actions += [SetGate(job.name, not serves) for job in staying if job.gate_open is serves]
        actions += bound_in_flight(rest, attached=bool(here))
        actions += [Start(job.name) for job in order.beside if competition.may_start(job)]
        wakes = [slack.serve_at_ns(job) for job in ready if job not in due]
        wake_ns = min([*wakes, competition.wake_ns or NEVER], default=NEVER)
        if wake_ns < NEVER:
            actions.append(WakeAt(max(wake_ns, view.now_ns + self.shortest_wait_ns)))
        return asked_again(actions, view)
