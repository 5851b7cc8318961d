"""Evaluates choices of actions, one per idle span of a tensor, with the costs that `apply` would find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Floats
from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.idle_spans import idle_spans
from neaptide.planning.analysis.recompute_chains import CannotRecomputeError, RecomputeChains
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.costing.schedule import Schedule, Scheduler
from neaptide.planning.plan import Gap, Plan, Return
from neaptide.planning.search.within_budget import schedule_within_budget

Actions = npt.NDArray[np.int8]

# What to do with a tensor while it is idle.
KEEP, SWAP, RECOMPUTE = range(3)


@dataclass(frozen=True, slots=True)
class EvaluatedPlan:
    """The gaps and figures of a plan. Fewer bytes over the budget are better, then less time."""

    excess_bytes: int
    seconds: float
    peak_bytes: int
    peak_op: int  # the op at the peak, or the op before which the inserted row at the peak runs
    gaps: GapTable

    def better_than(self, other: EvaluatedPlan | None) -> bool:
        return other is None or (self.excess_bytes, self.seconds) < (other.excess_bytes, other.seconds)


class Evaluator:
    """Evaluates actions for one trace, device and budget, and remembers the outcomes."""

    def __init__(self, trace: Trace, device: DeviceSpec, budget_bytes: int) -> None:
        self.trace, self.device, self.budget_bytes = trace, device, budget_bytes
        self.scheduler, self.chains = Scheduler(trace, device), RecomputeChains(trace)
        self.spans = idle_spans(trace)
        self._tensors = self.spans.tensor.tolist()
        self._after, self._before = self.spans.after.tolist(), self.spans.before.tolist()
        self.recompute_seconds = self._recompute_seconds()
        self._seen: dict[bytes, EvaluatedPlan | None] = {}
        self.evaluations = 0

    @property
    def recomputable(self) -> npt.NDArray[np.bool_]:
        return np.isfinite(self.recompute_seconds)

    def nothing(self) -> Actions:
        """The actions that keep every tensor."""
        return np.zeros(len(self.spans), dtype=np.int8)

    def outcome(self, actions: Actions) -> EvaluatedPlan | None:
        """The outcome of some actions; None if a tensor cannot be recomputed as they say."""
        key = actions.tobytes()
        if key not in self._seen:
            self.evaluations += 1
            self._seen[key] = self._evaluate(actions)
        return self._seen[key]

    def outcome_of_gaps(self, gaps: Sequence[Gap]) -> EvaluatedPlan:
        """The outcome of any gaps."""
        return self._outcome(self.scheduler.schedule_gaps(GapTable.of(self.trace, gaps)))

    def _outcome(self, schedule: Schedule) -> EvaluatedPlan:
        held = np.where(schedule.kept, schedule.held_bytes, 0)
        row = int(held.argmax())
        peak = int(held[row])
        return EvaluatedPlan(
            max(peak - self.budget_bytes, 0), schedule.seconds, peak, int(schedule.rows.anchor[row]), schedule.gaps
        )

    def actions_of(self, plan: Plan) -> Actions:
        """The actions nearest to the plan of another planner."""
        actions = self.nothing()
        row = {key: position for position, key in enumerate(zip(self._tensors, self._after, strict=True))}
        for gap in plan.gaps:
            key = (gap.tensor, gap.after)
            if key in row:
                actions[row[key]] = SWAP if gap.back is Return.SWAP else RECOMPUTE
        actions[(actions == RECOMPUTE) & ~self.recomputable] = SWAP
        return actions

    def _evaluate(self, actions: Actions) -> EvaluatedPlan | None:
        gaps = []
        for row in np.flatnonzero(actions).tolist():
            back = Return.SWAP if actions[row] == SWAP else Return.RECOMPUTE
            gaps.append(Gap(tensor=self._tensors[row], after=self._after[row], before=self._before[row], back=back))
        try:
            whole = self.chains.complete(gaps)
        except CannotRecomputeError:
            return None
        schedule = self.scheduler.schedule_gaps(GapTable.of(self.trace, whole))
        outcome = self._outcome(schedule)
        if outcome.excess_bytes == 0 or not schedule.gaps.swap.any():
            return outcome
        slower = self._outcome(schedule_within_budget(self.scheduler, schedule.gaps, self.budget_bytes))
        return slower if slower.better_than(outcome) else outcome

    def _recompute_seconds(self) -> Floats:
        """The seconds to recompute each span's tensor while all others are kept; infinite if impossible."""
        seconds = np.full(len(self.spans), np.inf)
        for row in np.flatnonzero(self.spans.recomputable).tolist():
            ops = self.chains.ops(self._tensors[row], self._before[row])
            if ops is not None:
                seconds[row] = self.chains.seconds(ops)
        return seconds
