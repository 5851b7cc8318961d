"""The same without a terminal: a line when something changes for a job, and now and then one about all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from neaptide.core.units import format_bytes, format_seconds
from neaptide.live.protocol.messages import JobStatus, Status
from neaptide.reporting.terminal.live_table import ENDED, format_duration, format_rate

_EVERY_SECONDS = 10.0
_NOTABLE = ("queued", "stopped")
_OFF = ("suspended", "evicted")  # may come and go with every iteration: said the first time


class LiveLines:
    """Remembers what was said, so that nothing is said twice."""

    def __init__(self, every_seconds: float = _EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._next_seconds: float | None = None
        self._said: dict[str, str] = {}
        self._were_off: set[str] = set()

    def lines(self, status: Status) -> Iterator[str]:
        """What is worth a line now."""
        for job in status.jobs:
            milestone = _milestone(job, self._said.get(job.name, ""))
            if milestone and milestone != self._said.get(job.name):
                self._said[job.name] = milestone
                yield _stamped(status, f"{job.name}: {milestone}")
            if job.state in _OFF and job.name not in self._were_off:
                self._were_off.add(job.name)
                yield _stamped(status, f"{job.name}: {job.state} for the first time")
        there = [job for job in status.jobs if job.state not in ENDED and job.solo_seconds]
        if self._next_seconds is None:
            self._next_seconds = status.uptime_seconds + self._every_seconds
        elif there and status.uptime_seconds >= self._next_seconds:
            self._next_seconds = status.uptime_seconds + self._every_seconds
            yield _stamped(status, _all(status, there))


def _milestone(job: JobStatus, said: str) -> str:
    """What the job has come to; what it does from iteration to iteration is none."""
    if job.state == "failed":
        return f"failed: {job.reason}" if job.reason else "failed"
    if job.state == "done":
        return f"done, {job.iterations_done:,} iterations, peak {format_bytes(job.peak_bytes)}"
    if not job.solo_seconds:
        return "is measured" if job.state == "measured" else job.state
    known = f"needs {format_bytes(job.needs_bytes)}, {format_seconds(job.solo_seconds)} an iteration alone"
    if job.state in _NOTABLE:
        return f"{job.state}; {known}" if job.state == "queued" else job.state
    return known if said != "runs again" and not said.startswith(_NOTABLE) else "runs again"


def _all(status: Status, there: Sequence[JobStatus]) -> str:
    jobs = ", ".join(
        f"{job.name} {job.iterations_done:,}{f'/{job.iterations:,}' if job.iterations else ''}"
        f" ({format_rate(job.iterations_per_second)}/s)"
        for job in there
    )
    return f"{format_bytes(status.used_bytes)} of {format_bytes(status.budget_bytes)}; {jobs}"


def _stamped(status: Status, text: str) -> str:
    return f"[{format_duration(status.uptime_seconds):>8}] {text}"
