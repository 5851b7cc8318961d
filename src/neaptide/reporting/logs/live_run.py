"""A live run with its metrics and its memory over time, for tables and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import msgspec
import numpy as np

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Entry
from neaptide.core.control.log_format import HeldMemory, JobFacts
from neaptide.live.runs.supervisor import JobResult
from neaptide.reporting.logs.comparison import Row
from neaptide.reporting.logs.metrics import measure
from neaptide.reporting.logs.run_folder import SavedRun
from neaptide.simulation import MemorySeries

REFERENCE = "temporal"


@dataclass(frozen=True, slots=True)
class LiveRun:
    """The run of one policy."""

    name: str
    row: Row
    budget_bytes: int
    entries: tuple[Entry, ...]
    memory: Mapping[str, MemorySeries]  # per job, as the daemon logged it
    total: MemorySeries
    end_ns: int
    results: tuple[JobResult, ...] = ()

    @property
    def first_ns(self) -> int:
        """When the device was first used. Before that, processes start."""
        used = self.total.held_bytes.nonzero()[0]
        return int(self.total.at_ns[used[0]]) if used.size else 0

    @property
    def apart(self) -> list[str]:
        """The jobs whose processes ended without an iteration under the daemon."""
        shared = {record.job.name for record in self.row.metrics.jobs if record.iterations}
        return [each.name for each in self.results if each.name not in shared and not each.asked_to_end]


def live_run(saved: SavedRun, alone_ns: Mapping[str, int] = MappingProxyType({})) -> LiveRun:
    """The metrics and the memory of a run, not yet compared with another run.

    `alone_ns` has iteration times of jobs that are more exact than those of this run.
    """
    header, entries, memory = saved.logged.header, saved.logged.entries, saved.logged.memory
    known = [msgspec.structs.replace(job, solo_ns=alone_ns.get(job.name, job.solo_ns)) for job in header.jobs]
    facts = _facts(known, entries)
    end_ns = max([header.end_ns, *(held.at_ns for held in memory[-1:])])
    metrics = measure(entries, facts, end_ns)
    peak_bytes = saved.file.high_water_bytes
    most_bytes = max([header.budget_bytes, *(e.budget_bytes for e in entries if isinstance(e, ev.BudgetChanged))])
    return LiveRun(
        name=saved.file.name,
        row=Row(header.policy, metrics, metrics.throughput, peak_bytes, max(0, peak_bytes - most_bytes)),
        budget_bytes=header.budget_bytes,
        entries=entries,
        memory={job.name: _series(memory, job.name) for job in facts},
        total=_series(memory, None),
        end_ns=end_ns,
        results=saved.file.results,
    )


def compared(saved: Sequence[SavedRun]) -> list[LiveRun]:
    """Runs of the same jobs, with their throughput relative to the run of temporal, or else to the first run.

    A job's iteration is the same work in all runs: the least time that was measured for it alone.
    """
    alone_ns: dict[str, int] = {}
    for job in (job for each in saved for job in each.logged.header.jobs):
        alone_ns[job.name] = min(job.solo_ns, alone_ns.get(job.name, job.solo_ns))
    runs = [live_run(each, alone_ns) for each in saved]
    reference = next((run for run in runs if run.row.policy == REFERENCE), runs[0])
    against = reference.row.metrics.throughput
    return [replace(run, row=replace(run.row, against=against)) for run in runs]


def _facts(jobs: Sequence[JobFacts], entries: Sequence[Entry]) -> list[JobFacts]:
    """The facts of the jobs. A job that ended without announcing its iterations has those that it did."""
    done: dict[str, int] = {}
    ended: set[str] = set()
    for entry in entries:
        if isinstance(entry, ev.IterationEnded):
            done[entry.job] = done.get(entry.job, 0) + entry.iterations
        elif isinstance(entry, ev.JobEnded):
            ended.add(entry.job)
    return [
        msgspec.structs.replace(job, iterations=done[job.name])
        if job.iterations is None and job.name in ended and done.get(job.name)
        else job
        for job in jobs
    ]


def _series(memory: Sequence[HeldMemory], job: str | None) -> MemorySeries:
    """The bytes that a job held over time; without a job, the bytes of all jobs together."""
    at_ns = np.array([held.at_ns for held in memory], dtype=np.int64)
    levels = [held.total_bytes if job is None else held.held_bytes.get(job, 0) for held in memory]
    return MemorySeries(at_ns, np.array(levels, dtype=np.int64))
