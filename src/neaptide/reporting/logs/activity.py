"""How each job spent its time, from the event log: queued, waiting, inside an iteration, or in host memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Refused


class Doing(Enum):
    """What a job does at one time."""

    QUEUED = "queued"  # from its arrival to its admission
    WAITING = "waiting"  # between two iterations
    RUNNING = "running"
    SUSPENDED = "suspended"  # its bytes are in host memory


@dataclass(frozen=True, slots=True)
class Span:
    """A time during which a job did one thing."""

    doing: Doing
    start_ns: int
    end_ns: int


def spans_of(entries: Iterable[Entry], end_ns: int) -> dict[str, list[Span]]:
    """The spans of every job in order, up to the end of the log."""
    found: dict[str, list[Span]] = {}
    now: dict[str, tuple[Doing, int]] = {}
    before: dict[str, Doing] = {}  # what a suspended job did before, and does again when it is resumed

    def change(job: str, doing: Doing | None, at_ns: int) -> None:
        was = now.pop(job, None)
        if was is not None and at_ns > was[1]:
            found.setdefault(job, []).append(Span(was[0], was[1], at_ns))
        if doing is not None:
            now[job] = (doing, at_ns)

    for entry in entries:
        if isinstance(entry, Refused):
            continue
        match entry.action if isinstance(entry, Decided) else entry:
            case ev.JobArrived(job=job):
                change(job, Doing.QUEUED, entry.at_ns)
            case act.Admit(job=job) | ev.IterationEnded(job=job):
                change(job, Doing.WAITING, entry.at_ns)
            case act.Start(job=job):
                change(job, Doing.RUNNING, entry.at_ns)
            case ev.JobSuspended(job=job) | ev.JobEvicted(job=job):
                if job in now and now[job][0] is not Doing.SUSPENDED:
                    before[job] = now[job][0]
                change(job, Doing.SUSPENDED, entry.at_ns)
            case ev.JobResumed(job=job):
                change(job, before.get(job, Doing.WAITING), entry.at_ns)
            case ev.JobEnded(job=job) | ev.JobFailed(job=job):
                change(job, None, entry.at_ns)
    for job in list(now):
        change(job, None, end_ns)
    return found


def total_ns(spans: Sequence[Span]) -> Mapping[Doing, int]:
    """How long the job did each thing."""
    sums = dict.fromkeys(Doing, 0)
    for span in spans:
        sums[span.doing] += span.end_ns - span.start_ns
    return sums
