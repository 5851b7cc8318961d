"""A live run without a terminal: a line whenever a job's state changes, and every ten seconds one about all jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from neaptide.core.control.job import DisplayState
from neaptide.core.text import printable
from neaptide.core.units import format_bytes, format_seconds
from neaptide.live.protocol.messages import JobStatus, Status
from neaptide.reporting.formats import format_duration, format_rate

_EVERY_SECONDS = 10.0
_NOTABLE_CHANGE = 0.1  # of what a job needs, or of its time alone; a smaller one gets no line
_NOTABLE = (DisplayState.QUEUED, DisplayState.STOPPED)
# A job may leave the device at every iteration, so only the first time gets a line.
_OFF = (DisplayState.SUSPENDED, DisplayState.EVICTED)


class LiveLines:
    """Remembers the lines already given, so that no line is repeated."""

    def __init__(self, every_seconds: float = _EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._next_seconds: float | None = None
        self._said: dict[tuple[str, int], str] = {}  # by name and process: another job may take an ended one's name
        self._measured: dict[tuple[str, int], JobStatus] = {}  # the status whose figures the last line gave
        self._were_off: set[tuple[str, int]] = set()

    def lines(self, status: Status) -> Iterator[str]:
        """The lines that this status adds."""
        for job in status.jobs:
            which = (job.name, job.pid)
            if not _is_near(job, self._measured.get(which)):
                self._measured[which] = job
            milestone = _milestone(job, self._measured[which], self._said.get(which, ""))
            if milestone and milestone != self._said.get(which):
                self._said[which] = milestone
                yield _stamped(status, f"{job.name}: {milestone}")
            if job.state in _OFF and which not in self._were_off:
                self._were_off.add(which)
                yield _stamped(status, f"{job.name}: {job.state} for the first time")
        there = [job for job in status.jobs if job.solo_seconds or job.state is DisplayState.RUNNING]
        there = [job for job in there if not job.state.ended]
        if self._next_seconds is None:
            self._next_seconds = status.uptime_seconds + self._every_seconds
        elif there and status.uptime_seconds >= self._next_seconds:
            self._next_seconds = status.uptime_seconds + self._every_seconds
            yield _stamped(status, _all(status, there))


def _is_near(job: JobStatus, before: JobStatus | None) -> bool:
    """Whether the figures of the job's iteration are nearly those of the last line, so that no new line is needed."""
    if before is None or (job.state is DisplayState.QUEUED) != (before.state is DisplayState.QUEUED):
        return False
    return all(
        abs(now - then) < _NOTABLE_CHANGE * then
        for now, then in ((job.needs_bytes, before.needs_bytes), (job.solo_seconds, before.solo_seconds))
    )


def _milestone(job: JobStatus, measured: JobStatus, said: str) -> str:
    """What the job has reached. Starting or ending an iteration is not a milestone."""
    if job.state is DisplayState.NOT_SHARED:
        return f"not shared: {job.reason}"
    if job.state is DisplayState.FAILED:
        return f"failed: {job.reason}" if job.reason else "failed"
    if job.state is DisplayState.INTERRUPTED:
        return job.state
    if job.state is DisplayState.DONE:
        return f"done, {job.iterations_done:,} iterations, peak {format_bytes(job.peak_bytes)}"
    if not job.solo_seconds:
        if job.state in _OFF:
            return said  # a line for the first time is enough
        return "is being measured" if job.state is DisplayState.MEASURING else job.state
    known = f"needs {format_bytes(measured.needs_bytes)}, {format_seconds(measured.solo_seconds)} an iteration alone"
    if job.state in _NOTABLE:
        return f"{job.state}; {known}" if job.state is DisplayState.QUEUED else job.state
    return known if said != "runs again" and not said.startswith(_NOTABLE) else "runs again"


def _all(status: Status, there: Sequence[JobStatus]) -> str:
    jobs = ", ".join(map(_progress, there))
    return f"{format_bytes(status.used_bytes)} of {format_bytes(status.budget_bytes)}; {jobs}"


def _progress(job: JobStatus) -> str:
    if not job.solo_seconds:  # nothing is known of its iterations: it runs without a daemon
        return f"{job.name} runs"
    of_all = f"/{job.iterations:,}" if job.iterations else ""
    return f"{job.name} {job.iterations_done:,}{of_all} ({format_rate(job.iterations_per_second)}/s)"


def _stamped(status: Status, text: str) -> str:
    return f"[{format_duration(status.uptime_seconds):>8}] {printable(text)}"
