"""A live run without a terminal: a line whenever a job's state changes, and every ten seconds one about all jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from neaptide.core.control.job import DisplayState
from neaptide.core.units import format_bytes, format_seconds
from neaptide.live.protocol.messages import JobStatus, Status
from neaptide.reporting.formats import format_duration, format_rate

_EVERY_SECONDS = 10.0
_NOTABLE = (DisplayState.QUEUED, DisplayState.STOPPED)
# A job may leave the device at every iteration, so only the first time gets a line.
_OFF = (DisplayState.SUSPENDED, DisplayState.EVICTED)


class LiveLines:
    """Remembers the lines already given, so that no line is repeated."""

    def __init__(self, every_seconds: float = _EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._next_seconds: float | None = None
        self._said: dict[str, str] = {}
        self._were_off: set[str] = set()

    def lines(self, status: Status) -> Iterator[str]:
        """The lines that this status adds."""
        for job in status.jobs:
            milestone = _milestone(job, self._said.get(job.name, ""))
            if milestone and milestone != self._said.get(job.name):
                self._said[job.name] = milestone
                yield _stamped(status, f"{job.name}: {milestone}")
            if job.state in _OFF and job.name not in self._were_off:
                self._were_off.add(job.name)
                yield _stamped(status, f"{job.name}: {job.state} for the first time")
        there = [job for job in status.jobs if not job.state.ended and job.solo_seconds]
        if self._next_seconds is None:
            self._next_seconds = status.uptime_seconds + self._every_seconds
        elif there and status.uptime_seconds >= self._next_seconds:
            self._next_seconds = status.uptime_seconds + self._every_seconds
            yield _stamped(status, _all(status, there))


def _milestone(job: JobStatus, said: str) -> str:
    """What the job has reached. Starting or ending an iteration is not a milestone."""
    if job.state is DisplayState.FAILED:
        return f"failed: {job.reason}" if job.reason else "failed"
    if job.state is DisplayState.DONE:
        return f"done, {job.iterations_done:,} iterations, peak {format_bytes(job.peak_bytes)}"
    if not job.solo_seconds:
        return "is being measured" if job.state is DisplayState.MEASURING else job.state
    known = f"needs {format_bytes(job.needs_bytes)}, {format_seconds(job.solo_seconds)} an iteration alone"
    if job.state in _NOTABLE:
        return f"{job.state}; {known}" if job.state is DisplayState.QUEUED else job.state
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
