"""Runs as a trace for ui.perfetto.dev: a process per policy, and for each job a track and a counter of bytes held.

The format is Chrome's trace events; their times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from neaptide.core.control import actions as act
from neaptide.core.control import events as ev
from neaptide.core.control.controller import Decided, Entry, Refused
from neaptide.core.control.log_format import JobFacts
from neaptide.core.units import format_bytes
from neaptide.simulation import MemorySeries, Outcome

_MOST_POINTS = 40_000  # of all counters of a run; more points slow the viewer down and cannot be seen
_INSTANTS: Mapping[type[ev.Event], str] = {
    ev.JobArrived: "arrived",
    ev.JobStalled: "waits for memory",
    ev.JobEvicted: "evicted to the host",
    ev.JobSuspended: "suspended",
    ev.JobResumed: "resumed",
    ev.JobEnded: "ended",
}


def write_perfetto(path: Path, runs: Sequence[tuple[Outcome, Sequence[JobFacts]]]) -> None:
    """Write runs side by side into one trace."""
    events = [event for pid, (outcome, jobs) in enumerate(runs, 1) for event in _run_events(pid, outcome, jobs)]
    path.write_bytes(msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"}))


def _run_events(pid: int, outcome: Outcome, jobs: Sequence[JobFacts]) -> Iterator[dict[str, Any]]:
    tracks = {job.name: tid for tid, job in enumerate(jobs, 1)}
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": outcome.policy}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    for name, tid in tracks.items():
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}
    deadlines = {job.name: job.deadline_ns for job in jobs}
    for entry in outcome.entries:
        for name, event in _entry_events(entry, deadlines):
            yield {"pid": pid, "tid": tracks[name], **event}
    for entry in outcome.entries:
        if isinstance(entry, ev.BudgetChanged):
            yield _counter(pid, entry.at_ns, "budget", entry.budget_bytes)
    yield _counter(pid, 0, "budget", outcome.budget_bytes)
    most = _MOST_POINTS // (len(outcome.memory) + 1)
    yield from _counters(pid, "held by all", outcome.total, most)
    for name, series in outcome.memory.items():
        yield from _counters(pid, f"held by {name}", series, most)


def _entry_events(entry: Entry, deadlines: Mapping[str, int | None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The trace events of an entry, with the name of the job whose track shows them."""
    match entry:
        case ev.IterationEnded(job=job):
            args: dict[str, Any] = {}
            if entry.arrivals_ns:
                waited = [entry.at_ns - arrival_ns for arrival_ns in entry.arrivals_ns]
                deadline_ns = deadlines[job]
                args = {"requests": len(waited), "longest_ms": max(waited) / 1e6}
                if deadline_ns is not None:
                    args["late"] = sum(latency > deadline_ns for latency in waited)
            start = _microseconds(entry.at_ns - entry.took_ns)
            name = "iteration" if entry.iterations == 1 else f"{entry.iterations} iterations"
            yield job, {"ph": "X", "name": name, "ts": start, "dur": _microseconds(entry.took_ns), "args": args}
        case ev.JobFailed(job=job):
            yield job, _instant(entry.at_ns, f"failed: {entry.reason}")
        case ev.Event() if type(entry) in _INSTANTS:
            yield entry.job, _instant(entry.at_ns, _INSTANTS[type(entry)])  # type: ignore[attr-defined]
        case Decided(action=act.Admit(job=job, lane=lane)):
            yield job, _instant(entry.at_ns, "admitted" if lane is None else f"admitted to lane {lane}")
        case Decided(action=act.SetPlan(job=job, plan=plan)):
            yield job, _instant(entry.at_ns, f"plan {plan}")
        case Decided(action=act.SetLimit(job=job, bytes=limit_bytes)):
            yield (
                job,
                _instant(entry.at_ns, "no limit" if limit_bytes is None else f"limit {format_bytes(limit_bytes)}"),
            )
        case Refused(action=action) if hasattr(action, "job"):
            yield action.job, _instant(entry.at_ns, f"refused {action.__struct_config__.tag}: {entry.reason}")


def _instant(at_ns: int, name: str) -> dict[str, Any]:
    return {"ph": "i", "s": "t", "name": name, "ts": _microseconds(at_ns)}


def _counters(pid: int, name: str, series: MemorySeries, most: int) -> Iterator[dict[str, Any]]:
    times, levels = series.at_ns, series.held_bytes
    if times.size > most:  # keep the highest point of each group, so that no peak is lost
        starts = np.arange(most) * times.size // most
        times, levels = times[starts], np.maximum.reduceat(levels, starts)
    for at_ns, level in zip(times.tolist(), levels.tolist(), strict=True):
        yield _counter(pid, at_ns, name, level)


def _counter(pid: int, at_ns: int, name: str, amount: int) -> dict[str, Any]:
    return {"ph": "C", "pid": pid, "name": name, "ts": _microseconds(at_ns), "args": {"bytes": amount}}


def _microseconds(ns: int) -> float:
    return ns / 1000
