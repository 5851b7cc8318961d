"""Logs the bytes that jobs hold, by looking at the board up to 50 times a second: the jobs do not notice."""

from __future__ import annotations

from collections.abc import Callable

from neaptide.core.control.log_format import HeldMemory
from neaptide.live.daemon.clock import Timers
from neaptide.live.daemon.engine import LiveEngine

UNATTACHED = ""  # the name under which bytes of processes without a connection are logged
_SHORTEST_SECONDS = 0.02
_LONGEST_SECONDS = 0.16  # while nothing changes
_ALONE_SECONDS = 0.1  # for a job that runs ahead: its step pays for each look
_LINES_AT_ONE_RATE = 10_000  # then the rate is halved, so that the log of a long run stays small


class MemoryHistory:
    """Looks while a job is attached, and adds a line to the log when something has changed."""

    def __init__(self, engine: LiveEngine, timers: Timers, note: Callable[[HeldMemory], None]) -> None:
        self._engine = engine
        self._timers = timers
        self._note = note
        self._held_bytes: dict[str, int] = {}  # as last logged
        self._lines = 0  # since the device was last empty
        self._wait_seconds = _SHORTEST_SECONDS

    def keep_looking(self) -> None:
        """See to it that the next look comes, if there is anything to look at."""
        if self._engine.jobs or self._held_bytes:
            least_seconds = _ALONE_SECONDS if self._engine.all_run_ahead else 0.0
            self._timers.start("memory", max(self._wait_seconds, least_seconds), self._look)
        else:
            self._lines = 0

    def _look(self) -> None:
        held_bytes = self._read()
        shortest_seconds = _SHORTEST_SECONDS * 2 ** (self._lines // _LINES_AT_ONE_RATE)
        if held_bytes == self._held_bytes:
            self._wait_seconds = min(2 * self._wait_seconds, max(_LONGEST_SECONDS, shortest_seconds))
        else:
            self._wait_seconds = shortest_seconds
            self._held_bytes = held_bytes
            self._lines += 1
            self._note(HeldMemory(self._engine.now_ns, held_bytes))
        self.keep_looking()

    def _read(self) -> dict[str, int]:
        _, by_slot = self._engine.board.read_counters()
        held_bytes = {}
        for job in self._engine.jobs.values():
            held_bytes[job.name] = by_slot[job.slot]
            job.peak_bytes = max(job.peak_bytes, by_slot[job.slot])
        if unattached_bytes := sum(by_slot) - sum(held_bytes.values()):
            held_bytes[UNATTACHED] = unattached_bytes
        return held_bytes
