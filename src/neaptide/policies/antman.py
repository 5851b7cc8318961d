"""AntMan (OSDI'20): a guaranteed job runs as if it were alone; opportunistic jobs use only what it leaves free.

The paper slows opportunistic jobs down by delaying their kernels and moves their memory to the host. Here a gate holds
their heavy ops, and they are suspended between iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neaptide.core.control.actions import Action, SetGate, Start
from neaptide.core.control.job import JobState
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import JobView, View
from neaptide.policies.parts.precedence import Precedence, in_turn


@dataclass(frozen=True)
class AntMan(Policy):
    """The guaranteed job is the one with the highest priority, of equals the oldest. Its whole peak is reserved.

    The other jobs run beside it in the remaining memory; a job that has no place there is suspended at the end of its
    iteration. While the guaranteed job's iterations have so far taken more than `bound` times their time alone, the
    other jobs' heavy ops wait and they start no iteration.
    """

    name = "antman"
    needs = frozenset({Need.ITERATION_TIME, Need.PROGRESS, Need.SUSPEND, Need.GATE})
    bound: float = 1.1

    def decide(self, view: View) -> Sequence[Action]:
        ranks = in_turn(view)
        if not ranks:
            return []
        guaranteed = ranks[0]
        order = Precedence(view, ranks[:1], ranks[1:])
        held = self._slowed(guaranteed, view.now_ns)
        # No gate for the guaranteed job, nor for a job without a place beside it, which is to end its iteration soon.
        gates = {job.name: not held or job not in order.kept for job in ranks}
        actions: list[Action] = [
            *(SetGate(job.name, gates[job.name]) for job in ranks if job.admitted and job.gate_open != gates[job.name]),
            *order.moves,
            *(Start(job.name) for job in order.ready([guaranteed])),
        ]
        return actions if held else actions + [Start(job.name) for job in order.beside]

    def _slowed(self, guaranteed: JobView, now_ns: int) -> bool:
        """Whether the guaranteed job runs, or could, and has fallen behind."""
        took_ns, alone_ns = guaranteed.busy_ns, guaranteed.service_ns
        if guaranteed.state is JobState.RUNNING:
            took_ns += now_ns - guaranteed.started_ns
            alone_ns += guaranteed.position_ns
        elif not guaranteed.wants_to_run:
            return False
        return took_ns > self.bound * alone_ns > 0
