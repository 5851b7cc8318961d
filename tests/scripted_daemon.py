"""A clock and a connection under a test's control, for a daemon in virtual time."""

from __future__ import annotations

from collections.abc import Callable

from neaptide.live.daemon.attached_job import AttachedJob
from neaptide.live.protocol import messages as say


class ScriptedClock:
    """A clock whose time passes only in `pass_seconds`."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._calls: list[_Call] = []

    def now_ns(self) -> int:
        return self._now_ns

    def call_later(self, seconds: float, call: Callable[[], None]) -> _Call:
        self._calls.append(_Call(self._now_ns + round(seconds * 1e9), call))
        return self._calls[-1]

    def pass_seconds(self, seconds: float) -> None:
        end_ns = self._now_ns + round(seconds * 1e9)
        while due := [call for call in self._calls if call.at_ns <= end_ns and not call.cancelled]:
            first = min(due, key=lambda call: call.at_ns)
            self._calls.remove(first)
            self._now_ns = max(self._now_ns, first.at_ns)
            first.call()
        self._now_ns = end_ns


class _Call:
    def __init__(self, at_ns: int, call: Callable[[], None]) -> None:
        self.at_ns, self.call, self.cancelled = at_ns, call, False

    def cancel(self) -> None:
        self.cancelled = True


class ScriptedCaller:
    """A connection that keeps the daemon's messages."""

    def __init__(self) -> None:
        self.job: AttachedJob | None = None
        self.heard: list[say.FromDaemon] = []

    def say(self, message: say.FromDaemon) -> None:
        self.heard.append(message)

    def hang_up(self) -> None:
        pass
