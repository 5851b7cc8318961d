"""Notable entries of a log as sentences. Entries that occur in every iteration are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Refused
from neaptide.core.control.job import is_interruption
from neaptide.core.units import format_bytes, format_seconds


def notable_entries(entries: Iterable[Entry]) -> Iterator[tuple[int, str]]:
    """The time of each notable entry, and a sentence about it."""
    for entry in entries:
        if isinstance(entry, Refused):
            yield entry.at_ns, f"refused: {_action(entry.action) or type(entry.action).__name__}: {entry.reason}"
        elif words := _action(entry.action) if isinstance(entry, Decided) else _event(entry):
            yield entry.at_ns, words


def failure_words(reason: str) -> str:
    """How a job failed, to be read after its name."""
    if is_interruption(reason):
        return "was interrupted"
    return f"failed: {reason}" if reason else "failed"


def _event(event: ev.Event) -> str:
    match event:
        case ev.JobArrived(job=job):
            return f"{job} arrived"
        case ev.JobStalled(job=job):
            return f"{job} waits for memory inside an iteration"
        case ev.JobGrew(job=job, peak_bytes=peak_bytes):
            return f"{job} needs more memory than before: {format_bytes(peak_bytes)}"
        case ev.JobMeasured(job=job, solo_ns=solo_ns):
            return f"{job} was measured again: {format_seconds(solo_ns / 1e9)} an iteration alone"
        case ev.JobEvicted(job=job, unresponsive=True):
            return f"{job} does not respond; other jobs do not wait for it"
        case ev.JobEvicted(job=job):
            return f"{job} was evicted to host memory, to make room for another job"
        case ev.JobSuspended(job=job):
            return f"{job} is in host memory"
        case ev.JobResumed(job=job):
            return f"{job} is back on the device"
        case ev.JobEnded(job=job):
            return f"{job} ended"
        case ev.JobFailed(job=job, reason=reason):
            return f"{job} {failure_words(reason)}"
        case ev.JobLeft(job=job):
            return f"{job} goes on without the daemon, and may join again"
        case ev.BudgetChanged() as changed if changed.budget_bytes != changed.whole_bytes:
            left, whole = format_bytes(changed.budget_bytes), format_bytes(changed.whole_bytes)
            return f"of the {whole}, jobs that are new or do not respond leave {left} to the others"
        case ev.BudgetChanged(budget_bytes=budget_bytes):
            return f"the budget is {format_bytes(budget_bytes)}"
    return ""


def _action(action: act.Action) -> str:
    match action:
        case act.Admit(job=job, lane=lane, ceiling_bytes=ceiling_bytes):
            where = "" if lane is None else f" to lane {lane}"
            return f"{job} admitted{where}" + (f", up to {format_bytes(ceiling_bytes)}" if ceiling_bytes else "")
        case act.MoveLane(job=job, lane=lane):
            return f"{job} moved to lane {lane}"
        case act.SizeLane(lane=lane, bytes=size_bytes):
            return f"lane {lane} has {format_bytes(size_bytes)}" if size_bytes else f"lane {lane} is closed"
        case act.SetPlan(job=job, plan=plan):
            return f"{job} follows plan {plan}"
        case act.SetLimit(job=job, bytes=None):
            return f"{job} may hold what it needs on the device"
        case act.SetLimit(job=job, bytes=limit_bytes) if limit_bytes is not None:
            return f"{job} may hold {format_bytes(limit_bytes)} on the device, the rest goes to host memory"
        case act.Suspend(job=job):
            return f"the policy suspends {job}"
        case act.Resume(job=job):
            return f"the policy resumes {job}"
    return ""
