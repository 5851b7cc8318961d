"""The events that reach the engine from outside, ordered by time, then by kind, then as they were given."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from neaptide.core.control import events as ev

NEVER = 2**63 - 1
# The order of kinds at one time.
_ORDER: dict[type[ev.Event], int] = {ev.BudgetChanged: 0, ev.JobArrived: 1, ev.RequestArrived: 2, ev.Woken: 3}
# Wake-ups in a row while nothing else happens, after which the policy is taken to be stuck.
_IDLE_WAKES = 100_000


class Agenda:
    """Budget changes, arrivals, requests, and at most one wake-up of the policy."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, ev.Event]] = []
        self._given = 0
        self._wake_ns: int | None = None
        self._idle_wakes = 0

    def expect(self, event: ev.Event) -> None:
        heapq.heappush(self._heap, (event.at_ns, _ORDER[type(event)], self._given, event))
        self._given += 1

    def wake_at(self, at_ns: int) -> None:
        self._wake_ns = at_ns

    def something_happened(self) -> None:
        """Note an event that did not come from the agenda."""
        self._idle_wakes = 0

    def drop_requests(self, unwanted: Callable[[str], bool]) -> None:
        """Drop the next requests as long as they are for jobs that have ended."""
        while self._heap and isinstance(event := self._heap[0][3], ev.RequestArrived) and unwanted(event.job):
            heapq.heappop(self._heap)

    @property
    def next_ns(self) -> int:
        """The time of the next entry. Changes nothing."""
        first = self._heap[0][0] if self._heap else NEVER
        return first if self._wake_ns is None else min(first, self._wake_ns)

    def take(self) -> ev.Event:
        """Remove and return the next entry."""
        at_ns = self.next_ns
        if self._heap and self._heap[0][0] == at_ns:
            self._idle_wakes = 0
            return heapq.heappop(self._heap)[3]
        assert self._wake_ns is not None
        self._wake_ns = None
        self._idle_wakes += 1
        if self._idle_wakes > _IDLE_WAKES:
            raise ValueError(f"the policy was woken {_IDLE_WAKES} times in a row and let nothing happen; the run stops")
        return ev.Woken(at_ns)
