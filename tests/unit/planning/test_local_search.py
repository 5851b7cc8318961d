"""The local search does not go on with what cannot become the best plan."""

from __future__ import annotations

import numpy as np
import pytest

from builders import Op, Tensor, make_trace
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Kind, Phase
from neaptide.planning.costing.gap_table import GapTable
from neaptide.planning.search.evaluator import KEEP, SWAP, Actions, EvaluatedPlan, Evaluator
from neaptide.planning.search.local_search import LocalSearch

LAYERS = 4
BYTES = 1 << 20
FOREVER = float("inf")
KEPT_SECONDS = 10.0  # with every tensor kept; more than the 8 of the trace, so that there is something to gain


class Scripted(Evaluator):
    """Each released tensor costs a second; `excess` says how many bytes are over the budget with so many released."""

    def __init__(self) -> None:
        forward = [Op(writes=(layer,)) for layer in range(LAYERS)]
        backward = [Op(phase=Phase.BACKWARD, reads=(layer,)) for layer in reversed(range(LAYERS))]
        kept = [
            Tensor(bytes=BYTES, born=layer, died=2 * LAYERS - 1 - layer, kind=Kind.ACTIVATION, saved=True)
            for layer in range(LAYERS)
        ]
        super().__init__(make_trace([*forward, *backward], kept), find_device("V100-16GB"), 2 * BYTES)

    def outcome(self, actions: Actions) -> EvaluatedPlan | None:
        self.evaluations += 1
        released = int(np.count_nonzero(actions))
        excess_bytes = max(2 - released, 0) * BYTES
        peak_op = LAYERS  # every layer but the last is idle there
        gaps = GapTable.of(self.trace, [])
        return EvaluatedPlan(excess_bytes, KEPT_SECONDS + released, 2 * BYTES + excess_bytes, peak_op, gaps)


def test_tensors_are_released_until_the_budget_is_met() -> None:
    search = LocalSearch(Scripted(), FOREVER)
    search.mend(search.evaluator.nothing())
    assert search.fits
    assert np.count_nonzero(search.actions) == 2


@pytest.mark.parametrize(("best_seconds", "evaluations"), [(10.0, 1), (10.5, 2)])
def test_mending_stops_where_a_plan_that_fits_is_faster_already(best_seconds: float, evaluations: int) -> None:
    evaluator = Scripted()
    search = LocalSearch(evaluator, FOREVER)
    search._of_actions = search.best = EvaluatedPlan(0, best_seconds, BYTES, 0, GapTable.of(evaluator.trace, []))
    search.actions = np.full(len(evaluator.spans), SWAP, dtype=np.int8)
    search.mend(evaluator.nothing())
    assert evaluator.evaluations == evaluations
    assert np.count_nonzero(search.actions == KEEP) == 0
