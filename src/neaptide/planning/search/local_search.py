"""A local search for the fastest plan within a budget and a time limit, counted in this thread's computing time.

- `mend`: release the idle tensor at the peak that is cheapest per byte, repeatedly, until the budget is met.
- `exchange`: change one action at a time.
- `improve`: undo a part of the best plan and mend it with other, random costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

import numpy as np

from neaptide.core.traces.columns import Floats, Integers
from neaptide.planning.analysis.segments import segments
from neaptide.planning.analysis.swap_times import hidden_swaps
from neaptide.planning.search.evaluator import KEEP, RECOMPUTE, SWAP, Actions, EvaluatedPlan, Evaluator

_SEGMENTS = (16, 8, 32, 4, 64, 24, 12, 48, 6, 96, 3, 2)
_MENDS = 40
_NOTHING_TO_GAIN = 1.0003
_TRIES_WITHOUT_GAIN = 400


class LocalSearch:
    """The search for one trace and budget. It keeps the best outcome, and the best outcome that actions describe."""

    def __init__(self, evaluator: Evaluator, until: float) -> None:
        self.evaluator, self.until = evaluator, until
        self.best: EvaluatedPlan | None = None
        self.lowest_bytes = evaluator.trace.peak_bytes
        self.actions = evaluator.nothing()
        self._of_actions: EvaluatedPlan | None = None
        spans, device = evaluator.spans, evaluator.device
        # A swap that the link does not hide costs its own copy and often delays another.
        self._swap_seconds: Floats = np.asarray(1.5 * spans.bytes / device.link_bandwidth, dtype=np.float64)
        self._recompute_seconds: Floats = evaluator.recompute_seconds

    @property
    def fits(self) -> bool:
        return self.best is not None and self.best.excess_bytes == 0

    @property
    def slowdown(self) -> float:
        """The seconds of the best outcome over those of the unplanned iteration."""
        return self.best.seconds / self.evaluator.trace.seconds if self.best is not None else float("inf")

    @property
    def finished(self) -> bool:
        """Whether the time is up or nothing is left to gain."""
        return thread_time() > self.until or (self.fits and self.slowdown < _NOTHING_TO_GAIN)

    def take(self, outcome: EvaluatedPlan) -> None:
        """Keep an outcome if it is the best so far."""
        self.lowest_bytes = min(self.lowest_bytes, outcome.peak_bytes)
        if outcome.better_than(self.best):
            self.best = outcome

    def try_actions(self, actions: Actions) -> EvaluatedPlan | None:
        """Evaluate some actions and keep them if they are the best so far."""
        outcome = self.evaluator.outcome(actions)
        if outcome is not None:
            self.take(outcome)
        if outcome is not None and outcome.better_than(self._of_actions):
            self._of_actions, self.actions = outcome, actions.copy()
        return outcome

    def hidden_swaps(self) -> None:
        """Mend three first plans: one without swaps, and two with swaps that the link hides."""
        trace, spans = self.evaluator.trace, self.evaluator.spans
        expensive_first = np.argsort(-np.minimum(self._recompute_seconds, 1e9) / spans.bytes, kind="stable")
        idle_seconds = trace.end_seconds[spans.before] - trace.end_seconds[spans.after]
        copied_seconds = 2 * spans.bytes / self.evaluator.device.link_bandwidth
        for order in (expensive_first[:0], expensive_first, np.argsort(copied_seconds - idle_seconds)):
            if not self.finished:
                self.mend(self._hidden(order))

    def segments(self) -> None:
        """Mend plans that recompute whole segments, with the tensors between segments kept or swapped."""
        evaluator = self.evaluator
        for count in _SEGMENTS:
            made = segments(evaluator.trace, evaluator.spans, count)
            if made is None:
                continue
            inside, borders = made
            actions = evaluator.nothing()
            actions[inside & evaluator.recomputable] = RECOMPUTE
            for order in (borders[:0], borders):
                if self.finished:
                    return
                self.mend(np.where(self._hidden(order) == SWAP, np.int8(SWAP), actions))

    def _hidden(self, order: Integers) -> Actions:
        """The actions that swap what the link hides; earlier spans in `order` come first."""
        where = self.evaluator
        hidden, _ = hidden_swaps(where.trace, where.device, where.spans, order.tolist(), where.budget_bytes)
        actions = where.nothing()
        actions[hidden] = SWAP
        return actions

    def mend(self, actions: Actions, cost_scale: Floats | None = None, swap_scale: Floats | None = None) -> None:
        """Release more tensors until the budget is met. `cost_scale` scales all costs, `swap_scale` those of swaps."""
        spans = self.evaluator.spans
        actions = actions.copy()
        swapping = self._swap_seconds if swap_scale is None else self._swap_seconds * swap_scale
        cost = np.minimum(self._recompute_seconds, swapping) / spans.bytes * (1.0 if cost_scale is None else cost_scale)
        way = np.where(self._recompute_seconds <= swapping, RECOMPUTE, SWAP).astype(np.int8)
        for _ in range(_MENDS):
            outcome = self.try_actions(actions)
            if outcome is None or outcome.excess_bytes == 0 or self.finished or self._too_slow(outcome):
                return
            idle = (spans.after < outcome.peak_op) & (outcome.peak_op < spans.before)
            rows = np.flatnonzero(idle & (actions == KEEP))
            if rows.size == 0:
                return
            rows = spans.covering(rows[np.argsort(cost[rows], kind="stable")], outcome.excess_bytes)
            actions[rows] = way[rows]

    def _too_slow(self, outcome: EvaluatedPlan) -> bool:
        """Whether a plan that fits is faster already: to release more would only make this one slower."""
        best = self._of_actions
        return best is not None and best.excess_bytes == 0 and outcome.seconds >= best.seconds

    def last_resort(self) -> None:
        """Swap what is idle at the peak, whatever it costs: first kept tensors, then recomputed tensors."""
        spans, actions = self.evaluator.spans, self.actions.copy()
        for _ in range(_MENDS):
            outcome = self.try_actions(actions)
            if outcome is None or outcome.excess_bytes == 0 or self.finished:
                return
            idle = (spans.after < outcome.peak_op) & (outcome.peak_op < spans.before)
            for action in (KEEP, RECOMPUTE):
                rows = np.flatnonzero(idle & (actions == action))
                if rows.size:
                    rows = rows[np.argsort(-spans.bytes[rows], kind="stable")]
                    actions[spans.covering(rows, outcome.excess_bytes)] = SWAP
                    break
            else:
                return

    def exchange(self, share: float) -> None:
        """Change one action at a time, the most expensive first: swap instead of recomputing, and keep if possible.

        It takes at most a share of the time that is left.
        """
        with self._limited(share):
            self._exchange()

    def _exchange(self) -> None:
        while not self.finished:
            before = self._of_actions
            self._try_each(SWAP, self._recompute_seconds / self.evaluator.spans.bytes)
            self._try_each(KEEP, np.where(self.actions == SWAP, self._swap_seconds, self._recompute_seconds))
            if self._of_actions is before:
                return

    def _try_each(self, action: int, order: Floats) -> None:
        for row in np.argsort(-order, kind="stable").tolist():
            if self.finished:
                return
            if self.actions[row] not in (KEEP, action):
                tried = self.actions.copy()
                tried[row] = action
                self.try_actions(tried)

    def improve(self, share: float) -> None:
        """Undo a part of the best actions and mend it with random costs, for a share of the time that is left."""
        with self._limited(share):
            self._improve()

    @contextmanager
    def _limited(self, share: float) -> Iterator[None]:
        until, now = self.until, thread_time()
        self.until = now + share * max(until - now, 0.0)
        try:
            yield
        finally:
            self.until = until

    def _improve(self) -> None:
        generator = np.random.default_rng(0)
        count, gained_at, best = len(self.evaluator.spans), self.evaluator.evaluations, self._of_actions
        while not self.finished and self.evaluator.evaluations - gained_at < _TRIES_WITHOUT_GAIN:
            if self._of_actions is not best:
                gained_at, best = self.evaluator.evaluations, self._of_actions
            actions = self.actions.copy()
            done = np.flatnonzero(actions)
            if done.size == 0:
                return
            cost = np.where(actions[done] == SWAP, self._swap_seconds[done], self._recompute_seconds[done])
            some = int(generator.integers(1, 2 + done.size // 8))
            chosen = generator.choice(done, size=some, p=cost / cost.sum())
            actions[chosen] = KEEP
            cost_scale, swap_scale = np.exp(generator.normal(0.0, 0.5, (2, count)))
            self.mend(actions, cost_scale, swap_scale * generator.choice([0.1, 0.5, 1.0, 4.0]))
