"""A live run with its metrics and its memory over time, for tables and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import msgspec
import numpy as np

from neaptide.core.control import events as ev
from neaptide.core.control.controller import Entry
from neaptide.core.control.log_format import HeldMemory, JobFacts, Joined
from neaptide.live.runs.supervisor import JobResult
from neaptide.live.runs.without_neaptide import Without
from neaptide.reporting.logs.comparison import REFERENCE, Row
from neaptide.reporting.logs.metrics import metrics_of
from neaptide.reporting.logs.run_folder import SavedRun
from neaptide.simulation import MemorySeries

_OUTSIDE_NEAPTIDE = tuple(each.value for each in Without)


@dataclass(frozen=True, slots=True)
class Measuring:
    """The time in which a job ran its first iterations without permits, to be measured."""

    began_ns: int  # when its first iteration began
    arrived_ns: int  # when it had been measured
    iterations: int  # that it did meanwhile
    alone_ns: int  # that one of them takes alone

    @property
    def lasted_ns(self) -> int:
        return self.arrived_ns - self.began_ns

    @property
    def cost_ns(self) -> int:
        """How much longer its iterations took than they take alone, once they are known."""
        return max(self.lasted_ns - self.iterations * self.alone_ns, 0)


@dataclass(frozen=True, slots=True)
class LiveRun:
    """The run of one policy, or a run without neaptide."""

    name: str
    row: Row
    budget_bytes: int
    entries: tuple[Entry, ...]
    memory: Mapping[str, MemorySeries]  # per job, as the daemon logged it
    total: MemorySeries
    end_ns: int
    results: tuple[JobResult, ...] = ()
    lost_lines: int = 0  # of the log, which could not be written
    measuring: Mapping[str, Measuring] = field(default_factory=dict)
    seconds: float = 0.0  # the wall time: start-up of programs and measuring included
    interrupted: bool = False
    began_at: str = ""
    hardware: str = ""
    version: str = ""

    @property
    def outside(self) -> bool:
        """Whether its jobs ran without neaptide."""
        return self.row.policy in _OUTSIDE_NEAPTIDE

    @property
    def one_by_one(self) -> bool:
        return self.row.policy == Without.ONE_AFTER_THE_OTHER.value

    @property
    def ended_well(self) -> bool:
        return not self.interrupted and bool(self.results) and not any(each.code for each in self.results)

    @property
    def unshared(self) -> list[str]:
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
    lasted = [round((result.began_seconds + result.seconds) * 1e9) for result in saved.file.results]
    end_ns = max([header.end_ns, *(held.at_ns for held in memory[-1:]), *lasted])
    metrics = metrics_of(entries, facts, max(header.end_ns, *(held.at_ns for held in memory[-1:]), 0))
    peak_bytes, budget_bytes = saved.file.high_water_bytes, header.user_bytes or header.budget_bytes
    most_bytes = max([budget_bytes, *(e.whole_bytes for e in entries if isinstance(e, ev.BudgetChanged))])
    row = Row(header.policy, metrics, 1.0, peak_bytes, max(0, peak_bytes - most_bytes), "one job alone")
    names = dict.fromkeys([*(result.name for result in saved.file.results), *(job.name for job in facts)])
    run = LiveRun(
        name=saved.file.name,
        row=row,
        budget_bytes=budget_bytes,
        entries=entries,
        memory={name: _series(memory, name) for name in names},
        total=_series(memory, None),
        end_ns=end_ns,
        results=saved.file.results,
        lost_lines=saved.logged.lost_lines,
        measuring=_measuring(saved.logged.joined, facts),
        seconds=saved.file.seconds,
        interrupted=saved.file.interrupted,
        began_at=saved.file.began_at,
        hardware=saved.file.hardware,
        version=header.version,
    )
    return replace(run, row=replace(row, wall_seconds=run.seconds if run.ended_well and run.seconds else None))


def compared(saved: Sequence[SavedRun]) -> list[LiveRun]:
    """Runs of the same jobs, with their throughput relative to one run.

    That is the run one after the other without neaptide, in wall time; or else the run of temporal, or the first run,
    both in the time since the first job was measured.

    ValueError if they are runs of different jobs. A job's iteration is the same work in all runs: the least time that
    was measured for it alone.
    """
    _check_same_jobs(saved)
    alone_ns: dict[str, int] = {}
    for job in (job for each in saved for job in each.logged.header.jobs):
        alone_ns[job.name] = min(job.solo_ns, alone_ns.get(job.name, job.solo_ns))
    runs = [live_run(each, alone_ns) for each in saved]
    if len(runs) == 1:
        return runs
    if (
        alone := next((run.row.wall_seconds for run in runs if run.one_by_one and run.row.wall_seconds), None)
    ) is not None:
        what = f"{Without.ONE_AFTER_THE_OTHER.value}, without neaptide, in wall time"
        return [replace(run, row=replace(run.row, against_seconds=alone, against_what=what)) for run in runs]
    reference = next((run for run in runs if run.row.policy == REFERENCE), runs[0])
    what = REFERENCE if reference.row.policy == REFERENCE else f"{reference.row.policy}, the first run"
    against = reference.row.metrics.throughput
    return [replace(run, row=replace(run.row, against=against, against_what=what)) for run in runs]


def _measuring(joined: Sequence[Joined], facts: Sequence[JobFacts]) -> dict[str, Measuring]:
    """How long each job was measured; of one that was measured again, the first time."""
    alone_ns = {job.name: job.solo_ns for job in facts}
    found: dict[str, Measuring] = {}
    for each in joined:
        name = each.facts.name
        if each.measuring_ns and name in alone_ns:
            began_ns = max(each.at_ns - each.measuring_ns, 0)
            found.setdefault(name, Measuring(began_ns, each.at_ns, each.measured_iterations, alone_ns[name]))
    return found


def _check_same_jobs(saved: Sequence[SavedRun]) -> None:
    first, *others = [{result.name for result in each.file.results} for each in saved]
    for run, names in zip(saved[1:], others, strict=True):
        if names != first:
            apart = ", ".join(sorted(names ^ first))
            raise ValueError(
                f"{saved[0].file.name} and {run.file.name} are runs of different jobs ({apart} in one alone), "
                "so they cannot be compared; name one of them"
            )


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
