"""The daemon's time: an event loop's in a running daemon, a scripted one in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Do not make the call."""


class Clock(Protocol):
    """Tells the time and makes calls later."""

    def now_ns(self) -> int:
        """Time since the daemon began. Changes nothing."""

    def device_ns(self, at_ns: int) -> int:
        """The same moment on the clock of the board's processes. Changes nothing."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Make a call after so many seconds, on the thread that the daemon runs on."""


class LoopClock:
    """The clock of an asyncio event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._began_ns = monotonic_ns()

    def now_ns(self) -> int:
        return monotonic_ns() - self._began_ns

    def device_ns(self, at_ns: int) -> int:
        return at_ns + self._began_ns

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self._loop.call_later(seconds, call)


class Timers:
    """Calls to come, each under a name of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, Timer] = {}

    def start(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Make the call once, after so many seconds; a call of this name that is still to come stays as it is."""
        if name not in self._pending:
            self.restart(name, seconds, call)

    def restart(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Make the call once, after so many seconds, in place of one of this name that is still to come."""

        def ring() -> None:
            del self._pending[name]
            call()

        if name in self._pending:
            self._pending[name].cancel()
        self._pending[name] = self._clock.call_later(seconds, ring)

    def cancel_all(self) -> None:
        """Make none of the calls."""
        for timer in self._pending.values():
            timer.cancel()
        self._pending.clear()
