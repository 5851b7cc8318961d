"""How each job spent its time, from the event log: queued, waiting, inside an iteration, or in host memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Refused
from neaptide.core.control.job import JobState


@dataclass(frozen=True, slots=True)
class StateSpan:
    """A time during which a job was in one state."""

    state: JobState
    start_ns: int
    end_ns: int


def spans_of(entries: Iterable[Entry], end_ns: int) -> dict[str, list[StateSpan]]:
    """The spans of every job in order, up to the end of the log."""
    found: dict[str, list[StateSpan]] = {}
    now: dict[str, tuple[JobState, int]] = {}
    before: dict[str, JobState] = {}  # the state to which a suspended job returns

    def change(job: str, state: JobState | None, at_ns: int) -> None:
        was = now.pop(job, None)
        if was is not None and at_ns > was[1]:
            found.setdefault(job, []).append(StateSpan(was[0], was[1], at_ns))
        if state is not None:
            now[job] = (state, at_ns)

    for entry in entries:
        if isinstance(entry, Refused):
            continue
        match entry.action if isinstance(entry, Decided) else entry:
            case ev.JobArrived(job=job):
                change(job, JobState.QUEUED, entry.at_ns)
            case act.Admit(job=job) | ev.IterationEnded(job=job):
                change(job, JobState.READY, entry.at_ns)
            case act.Start(job=job):
                change(job, JobState.RUNNING, entry.at_ns)
            case ev.JobSuspended(job=job) | ev.JobEvicted(job=job):
                if job in now and now[job][0] is not JobState.SUSPENDED:
                    before[job] = now[job][0]
                change(job, JobState.SUSPENDED, entry.at_ns)
            case ev.JobResumed(job=job):
                change(job, before.get(job, JobState.READY), entry.at_ns)
            case ev.JobEnded(job=job) | ev.JobFailed(job=job) | ev.JobLeft(job=job):
                change(job, None, entry.at_ns)
    for job in list(now):
        change(job, None, end_ns)
    return found


def total_ns(spans: Sequence[StateSpan]) -> Mapping[JobState, int]:
    """How long the job was in each state, from its arrival to its end."""
    sums = dict.fromkeys((state for state in JobState if not state.ended), 0)
    for span in spans:
        sums[span.state] += span.end_ns - span.start_ns
    return sums
