"""A search for the fastest plan within a budget, against a clock that stands still while others compute.

Mending: of what is idle at the peak, the cheapest per byte is let go, again and again, until the budget is met.
Exchange: one action is changed. Improvement: a part of the best so far is undone and mended with other tastes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time

import numpy as np

from neaptide.core.traces.columns import Floats, Integers
from neaptide.planning.analysis.segments import segments
from neaptide.planning.costing.swap_times import held_without, swaps
from neaptide.planning.search.moves import KEEP, RECOMPUTE, SWAP, Actions, Outcome, Search

_SEGMENTS = (16, 8, 32, 4, 64, 24, 12, 48, 6, 96, 3, 2)
_MENDS = 40
_NOTHING_TO_GAIN = 1.0003
_TRIES_WITHOUT_GAIN = 400


class Race:
    """The best outcome so far, and the best that is made of actions."""

    def __init__(self, search: Search, until: float) -> None:
        self.search, self.until = search, until
        self.best: Outcome | None = None
        self.lowest_bytes = search.trace.peak_bytes
        self.actions = search.nothing()
        self._of_actions: Outcome | None = None
        spans, device = search.spans, search.device
        # A swap that the link does not hide costs its copy, and often that of another.
        self._swap_seconds: Floats = np.asarray(1.5 * spans.bytes / device.link_bandwidth, dtype=np.float64)
        self._again: Floats = search.recompute_seconds

    @property
    def fits(self) -> bool:
        return self.best is not None and self.best.excess_bytes == 0

    @property
    def slowdown(self) -> float:
        """The best so far against the unplanned iteration."""
        return self.best.seconds / self.search.trace.seconds if self.best is not None else float("inf")

    @property
    def over(self) -> bool:
        """Whether the time is up, or nothing is left to gain."""
        return thread_time() > self.until or (self.fits and self.slowdown < _NOTHING_TO_GAIN)

    def take(self, outcome: Outcome) -> None:
        """Take an outcome from elsewhere if it is the best."""
        self.lowest_bytes = min(self.lowest_bytes, outcome.peak_bytes)
        if outcome.better_than(self.best):
            self.best = outcome

    def offer(self, actions: Actions) -> Outcome | None:
        """Try some actions."""
        outcome = self.search.outcome(actions)
        if outcome is not None:
            self.take(outcome)
        if outcome is not None and outcome.better_than(self._of_actions):
            self._of_actions, self.actions = outcome, actions.copy()
        return outcome

    def hidden_swaps(self) -> None:
        """Begin with nothing, or with what the link hides, and mend what is left over the budget."""
        trace, spans = self.search.trace, self.search.spans
        dear = np.argsort(-np.minimum(self._again, 1e9) / spans.bytes, kind="stable")
        idle_seconds = trace.end_seconds[spans.before] - trace.end_seconds[spans.after]
        for order in (dear[:0], dear, np.argsort(2 * spans.bytes / self.search.device.link_bandwidth - idle_seconds)):
            if not self.over:
                self.mend(self._hidden(order))

    def segments(self) -> None:
        """Compute whole segments again, their borders kept or swapped."""
        search = self.search
        for count in _SEGMENTS:
            made = segments(search.trace, search.spans, count)
            if made is None:
                continue
            inside, borders = made
            actions = search.nothing()
            actions[inside & search.recomputable] = RECOMPUTE
            for order in (borders[:0], borders):
                if self.over:
                    return
                self.mend(np.where(self._hidden(order) == SWAP, np.int8(SWAP), actions))

    def _hidden(self, order: Integers) -> Actions:
        """Swap what the link can move without anyone waiting and what helps, in some order of preference."""
        search, spans = self.search, self.search.spans
        over = search.trace.held_bytes > search.budget_bytes
        chosen: list[int] = []
        for row in order.tolist():
            if not over[spans.after[row] + 1 : spans.before[row]].any():
                continue
            tried = [*chosen, row]
            times = swaps(search.trace, search.device, spans.tensor[tried], spans.after[tried], spans.before[tried])
            if (times.free_seconds >= 0).all() and over[times.first_free[-1] : times.last_free[-1] + 1].any():
                chosen = tried
                held = held_without(search.trace.held_bytes, times.first_free, times.last_free, spans.bytes[chosen])
                over = held > search.budget_bytes
        actions = search.nothing()
        actions[chosen] = SWAP
        return actions

    def mend(self, actions: Actions, taste: Floats | None = None, liking: Floats | None = None) -> None:
        """Let go of more until the budget is met. `taste` scales costs, `liking` those of swaps alone."""
        spans = self.search.spans
        actions = actions.copy()
        swapping = self._swap_seconds if liking is None else self._swap_seconds * liking
        cost = np.minimum(self._again, swapping) / spans.bytes * (1.0 if taste is None else taste)
        way = np.where(self._again <= swapping, RECOMPUTE, SWAP).astype(np.int8)
        for _ in range(_MENDS):
            outcome = self.offer(actions)
            if outcome is None or outcome.excess_bytes == 0 or self.over or self._too_slow(outcome):
                return
            idle = (spans.after < outcome.peak_op) & (outcome.peak_op < spans.before)
            rows = np.flatnonzero(idle & (actions == KEEP))
            if rows.size == 0:
                return
            rows = rows[np.argsort(cost[rows], kind="stable")]
            enough = int(np.searchsorted(np.cumsum(spans.bytes[rows]), outcome.excess_bytes)) + 1
            actions[rows[:enough]] = way[rows[:enough]]

    def _too_slow(self, outcome: Outcome) -> bool:
        """Whether it is slower than what already fits: to let go of more would not make it faster."""
        best = self._of_actions
        return best is not None and best.excess_bytes == 0 and outcome.seconds >= best.seconds

    def last_resort(self) -> None:
        """Swap what is idle at the peak, whatever it costs: what is kept, then what chains bring back early."""
        spans, actions = self.search.spans, self.actions.copy()
        for _ in range(_MENDS):
            outcome = self.offer(actions)
            if outcome is None or outcome.excess_bytes == 0 or self.over:
                return
            idle = (spans.after < outcome.peak_op) & (outcome.peak_op < spans.before)
            for now, then in ((KEEP, SWAP), (RECOMPUTE, SWAP)):
                rows = np.flatnonzero(idle & (actions == now))
                if rows.size:
                    rows = rows[np.argsort(-spans.bytes[rows], kind="stable")]
                    enough = int(np.searchsorted(np.cumsum(spans.bytes[rows]), outcome.excess_bytes)) + 1
                    actions[rows[:enough]] = then
                    break
            else:
                return

    def exchange(self, share: float) -> None:
        """One action at a time, the dearest first: swap instead of computing again, and keep what need not go.

        It takes no more than a share of the time that is left.
        """
        with self._limited(share):
            self._exchange()

    def _exchange(self) -> None:
        while not self.over:
            before = self._of_actions
            self._try_each(SWAP, self._again / self.search.spans.bytes)
            self._try_each(KEEP, np.where(self.actions == SWAP, self._swap_seconds, self._again))
            if self._of_actions is before:
                return

    def _try_each(self, action: int, order: Floats) -> None:
        for row in np.argsort(-order, kind="stable").tolist():
            if self.over:
                return
            if self.actions[row] not in (KEEP, action):
                tried = self.actions.copy()
                tried[row] = action
                self.offer(tried)

    def improve(self, share: float) -> None:
        """Undo a part of what is done and mend it with other tastes, for a share of the time that is left."""
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
        count, gained_at, best = len(self.search.spans), self.search.evaluations, self._of_actions
        while not self.over and self.search.evaluations - gained_at < _TRIES_WITHOUT_GAIN:
            if self._of_actions is not best:
                gained_at, best = self.search.evaluations, self._of_actions
            actions = self.actions.copy()
            done = np.flatnonzero(actions)
            if done.size == 0:
                return
            cost = np.where(actions[done] == SWAP, self._swap_seconds[done], self._again[done])
            some = int(generator.integers(1, 2 + done.size // 8))
            chosen = generator.choice(done, size=some, p=cost / cost.sum())
            actions[chosen] = KEEP
            taste, liking = np.exp(generator.normal(0.0, 0.5, (2, count)))
            self.mend(actions, taste, liking * generator.choice([0.1, 0.5, 1.0, 4.0]))
