"""Policies compared on the same jobs: one row per policy, the columns of the table, and the same numbers as values.

Tables in the terminal and in the HTML report show these columns; `--json` prints the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from neaptide.core.units import format_bytes, format_seconds
from neaptide.reporting.formats import format_duration, format_share, format_times
from neaptide.reporting.logs.event_words import failure_words
from neaptide.reporting.logs.metrics import Metrics
from neaptide.simulation import Outcome

REFERENCE = "temporal"  # the policy with which others are compared


@dataclass(frozen=True, slots=True)
class Row:
    """The results of one policy. `against` is the throughput with which it is compared: that of `against_what`.

    If the wall time of a run of the same jobs one after the other is known, wall times are compared instead.
    """

    policy: str
    metrics: Metrics
    against: float
    peak_bytes: int
    over_budget_bytes: int
    against_what: str = REFERENCE
    wall_seconds: float | None = None  # of a live run in which all jobs ended well, start-up and measuring included
    against_seconds: float | None = None  # the wall time of the same jobs one after the other

    @property
    def speedup(self) -> float | None:
        """How many times as much work was done in the same time; None if this run did not do all of it."""
        if self.against_seconds is not None:
            return self.against_seconds / self.wall_seconds if self.wall_seconds else None
        return self.metrics.throughput / self.against if self.against else 0.0


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A run of one policy in virtual time, and its results."""

    outcome: Outcome
    row: Row


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of a row."""

    head: str
    key: str  # its name in JSON
    value: Callable[[Row], float | None]
    show: Callable[[float], str]
    best: Literal["high", "low", "none"]
    always: bool = False  # shown even if no row has a value other than zero


def _seconds_of(ns: float) -> str:
    return format_seconds(ns / 1e9)


def _over(amount: float) -> str:
    return format_bytes(amount) if amount else "0"


def _slowdown(row: Row) -> float | None:
    """None if every job ends: completion times then say the same."""
    return row.metrics.slowdown if any(each.endless for each in row.metrics.jobs) else None


def _count(value: float) -> str:
    return f"{value:,.0f}"


COLUMNS = (
    Column("wall\ntime", "wall_seconds", lambda row: row.wall_seconds, format_duration, "low"),
    Column("through-\nput", "throughput", lambda row: row.speedup, format_times, "high", always=True),
    Column("\nmakespan", "makespan_ns", lambda row: row.metrics.makespan_ns, _seconds_of, "low"),
    Column("JCT\nmean", "completion_ns", lambda row: row.metrics.completion_ns, _seconds_of, "low"),
    Column("JCT\np95", "completion_p95_ns", lambda row: row.metrics.completion_p95_ns, _seconds_of, "low"),
    Column("training\nslowdown", "slowdown", _slowdown, format_times, "low"),
    Column("\nqueueing", "queueing_ns", lambda row: row.metrics.queueing_ns, _seconds_of, "low"),
    Column("\nfairness", "fairness", lambda row: row.metrics.fairness, "{:.2f}".format, "high"),
    Column("SLO\nkept", "attainment", lambda row: row.metrics.attainment, format_share, "high"),
    Column("latency\np99", "latency_p99_ns", lambda row: row.metrics.latency_p99_ns, _seconds_of, "low"),
    Column("\npeak", "peak_bytes", lambda row: row.peak_bytes, format_bytes, "none", always=True),
    Column("over\nbudget", "over_budget_bytes", lambda row: row.over_budget_bytes, _over, "low", always=True),
    Column("\nstalls", "stalls", lambda row: row.metrics.stalls, _count, "low"),
    Column("evic-\ntions", "evictions", lambda row: row.metrics.evictions, _count, "low"),
)


def shown_columns(rows: Sequence[Row]) -> list[Column]:
    """The columns worth showing: those with a value other than zero in some row."""
    return [column for column in COLUMNS if column.always or any(column.value(row) for row in rows)]


def remarks(rows: Sequence[Row]) -> list[str]:
    """What a table of averages hides: a changed budget, and jobs that failed or did not end."""
    lines = []
    if any(row.over_budget_bytes and row.metrics.budget_changes for row in rows):
        lines.append("The budget was lowered during the run: memory that jobs held then counts as over budget.")
    for row in rows:
        done, possible = row.metrics.finished
        failed = [each for each in row.metrics.jobs if each.failure]
        lines += [f"{row.policy}: job {each.job.name} {failure_words(each.failure)}" for each in failed]
        left = [each.job.name for each in row.metrics.finite if not (each.done or each.failure)]
        if left:
            named = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
            lines.append(f"{row.policy}: {done} of {possible} jobs ended; these did not: {named}")
    return lines


def basis(rows: Sequence[Row]) -> str:
    """What throughput is measured against, in a sentence for below a table."""
    against = rows[0].against_what if rows else REFERENCE
    return f"Throughput is against {against}. docs/metrics.md defines every column."


def comparison_values(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The numbers of every policy and of each of its jobs, for a program."""
    return [
        {
            "policy": row.policy,
            **{column.key: column.value(row) for column in COLUMNS},
            "normalised_progress": row.metrics.throughput,
            "refused": row.metrics.refused,
            "jobs": [
                {
                    "name": record.job.name,
                    "done": record.done,
                    "failure": record.failure or None,
                    "iterations": record.iterations,
                    "requests": record.requests,
                    "answered": len(record.latencies_ns),
                    "in_time": record.in_time if record.job.deadline_ns is not None else None,
                    "completion_ns": record.completion_ns,
                    "queueing_ns": record.queueing_ns,
                    "slowdown": record.slowdown,
                }
                for record in row.metrics.jobs
            ],
        }
        for row in rows
    ]
