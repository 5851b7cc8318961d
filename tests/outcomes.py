"""A hand-made run of two jobs, with more memory than the budget for a while."""

from __future__ import annotations

import numpy as np

from neaptide.core.control.actions import Admit, Start
from neaptide.core.control.controller import Decided, Entry, Refused
from neaptide.core.control.events import BudgetChanged, IterationEnded, JobArrived, JobEnded, JobFailed, JobStalled
from neaptide.core.control.job import JobKind
from neaptide.core.control.log_format import JobFacts
from neaptide.core.units import GIB
from neaptide.reporting.logs.comparison import Row, SimulatedRun
from neaptide.reporting.logs.metrics import metrics_of
from neaptide.simulation import MemorySeries, Outcome

MS = 1_000_000


def job(name: str, kind: JobKind = JobKind.TRAINING, iterations: int | None = 1, solo_ns: int = 10 * MS) -> JobFacts:
    return JobFacts(
        name=name,
        kind=kind,
        iterations=iterations,
        solo_ns=solo_ns,
        batch=1,
        persistent_bytes=GIB,
        framework_bytes=GIB // 4,
        peak_bytes=3 * GIB,
        deadline_ns=15 * MS if kind is JobKind.INFERENCE else None,
    )


def series(*steps: tuple[int, int]) -> MemorySeries:
    return MemorySeries(
        np.array([at for at, _ in steps], dtype=np.int64), np.array([held for _, held in steps], dtype=np.int64)
    )


JOBS = (job("a"), job("b"))
ENTRIES: tuple[Entry, ...] = (
    JobArrived(0, "a"),
    Decided(0, Admit("a", lane=2)),
    Decided(0, Start("a")),
    JobArrived(5 * MS, "b"),
    Refused(5 * MS, Start("b"), "it is not ready"),
    JobStalled(6 * MS, "a"),
    BudgetChanged(8 * MS, 4 * GIB),
    IterationEnded(10 * MS, "a", 10 * MS),
    JobEnded(10 * MS, "a"),
    JobFailed(20 * MS, "b", "out of memory"),
)


def outcome(policy: str = "temporal", entries: tuple[Entry, ...] = ENTRIES) -> Outcome:
    return Outcome(
        policy=policy,
        budget_bytes=5 * GIB,
        entries=entries,
        memory={"a": series((0, 3 * GIB), (10 * MS, 0)), "b": series((5 * MS, 2 * GIB), (20 * MS, 0))},
        total=series((0, 3 * GIB), (5 * MS, 5 * GIB), (10 * MS, 2 * GIB), (20 * MS, 0)),
        peak_bytes=5 * GIB,
        over_budget_bytes=GIB,
        end_ns=20 * MS,
        op_events=0,
        decisions=2,
        decision_seconds=0.0,
    )


def simulated_run(policy: str = "temporal", against: float = 0.5) -> SimulatedRun:
    run = outcome(policy)
    metrics = metrics_of(run.entries, JOBS, run.end_ns)
    return SimulatedRun(run, Row(policy, metrics, against, run.peak_bytes, run.over_budget_bytes))
