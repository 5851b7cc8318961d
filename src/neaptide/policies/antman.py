"""AntMan (OSDI'20): one guaranteed job runs as if alone; opportunistic ones have what it leaves, and give way to it."""

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
    """The guaranteed job is the one with the highest priority, of equals the oldest; its whole peak is kept for it.

    The others run beside it in what memory is left; who has no place there goes to host memory at the end of its
    iteration. Their heavy ops wait, and they start no iteration, while the guaranteed job is slower than `bound` times
    its time alone, over all its iterations so far: on average it is never slower for long.
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
        # Not of the guaranteed job, nor of one that has no place beside it and shall soon end its iteration.
        gates = {job.name: not held or job not in order.kept for job in ranks}
        actions: list[Action] = [
            *(SetGate(job.name, gates[job.name]) for job in ranks if job.admitted and job.gate_open != gates[job.name]),
            *order.moves,
            *(Start(job.name) for job in order.ready([guaranteed])),
        ]
        return actions if held else actions + [Start(job.name) for job in order.beside]

    def _slowed(self, guaranteed: JobView, now_ns: int) -> bool:
        """Whether it has the device, or wants it, and has fallen behind."""
        took_ns, alone_ns = guaranteed.busy_ns, guaranteed.service_ns
        if guaranteed.state is JobState.RUNNING:
            took_ns += now_ns - guaranteed.started_ns
            alone_ns += guaranteed.position_ns
        elif not guaranteed.wants_to_run:
            return False
        return took_ns > self.bound * alone_ns > 0
