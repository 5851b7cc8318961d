"""Policies side by side on one scenario: a table for people and the same numbers for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from neaptide.core.units import format_bytes, format_seconds
from neaptide.reporting.logs.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Row:
    """How one policy did. `against` is the throughput of temporal sharing on the same scenario."""

    policy: str
    metrics: Metrics
    against: float
    peak_bytes: int
    over_budget_bytes: int

    @property
    def speedup(self) -> float:
        return self.metrics.throughput / self.against if self.against else 0.0


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    key: str  # its name in JSON
    value: Callable[[Row], float | None]
    show: Callable[[float], str]
    best: Literal["high", "low", "none"]
    always: bool = False  # also where no value says anything


def _seconds_of(ns: float) -> str:
    return format_seconds(ns / 1e9)


def _over(amount: float) -> str:
    return format_bytes(amount) if amount else "0"


def format_share(share: float) -> str:
    """A percentage that is only 100% when nothing is missing."""
    return "100%" if share == 1 else f"{min(share, 0.9999):.2%}" if share > 0.99 else f"{share:.1%}"


def _slowdown(row: Row) -> float | None:
    """Only where a job trains without end: of the others the completion times say it."""
    return row.metrics.slowdown if any(each.endless for each in row.metrics.jobs) else None


def _times(value: float) -> str:
    return f"{value:.2f}x"


def _count(value: float) -> str:
    return f"{value:,.0f}"


COLUMNS = (
    _Column("through-\nput", "throughput", lambda row: row.speedup, _times, "high", always=True),
    _Column("\nmakespan", "makespan_ns", lambda row: row.metrics.makespan_ns, _seconds_of, "low"),
    _Column("JCT\nmean", "completion_ns", lambda row: row.metrics.completion_ns, _seconds_of, "low"),
    _Column("JCT\np95", "completion_p95_ns", lambda row: row.metrics.completion_p95_ns, _seconds_of, "low"),
    _Column("training\nslowdown", "slowdown", _slowdown, _times, "low"),
    _Column("\nqueueing", "queueing_ns", lambda row: row.metrics.queueing_ns, _seconds_of, "low"),
    _Column("\nfairness", "fairness", lambda row: row.metrics.fairness, lambda value: f"{value:.2f}", "high"),
    _Column("SLO\nkept", "attainment", lambda row: row.metrics.attainment, format_share, "high"),
    _Column("latency\np99", "latency_p99_ns", lambda row: row.metrics.latency_p99_ns, _seconds_of, "low"),
    _Column("\npeak", "peak_bytes", lambda row: row.peak_bytes, format_bytes, "none", always=True),
    _Column("over\nbudget", "over_budget_bytes", lambda row: row.over_budget_bytes, _over, "low", always=True),
    _Column("\nstalls", "stalls", lambda row: row.metrics.stalls, _count, "low"),
    _Column("evic-\ntions", "evictions", lambda row: row.metrics.evictions, _count, "low"),
)


def print_comparison(rows: Sequence[Row], console: Console) -> None:
    """Print the table, in as many parts as the width needs, and below it what went wrong."""
    columns = [each for each in COLUMNS if each.always or any(each.value(row) for row in rows)]
    parts = [columns]
    while any(_width(rows, part, console) > console.width for part in parts) and len(parts) < len(columns):
        count = len(parts) + 1
        parts = [columns[i * len(columns) // count : (i + 1) * len(columns) // count] for i in range(count)]
    for index, part in enumerate(parts):
        if index:
            console.print()
        console.print(comparison_table(rows, part))
    console.print(Text("Throughput is against temporal. docs/metrics.md defines every column.", "dim"))
    for line in remarks(rows):
        console.print(Text(line, "yellow"))


def _width(rows: Sequence[Row], columns: Sequence[_Column], console: Console) -> int:
    return Measurement.get(console, console.options.update_width(1000), comparison_table(rows, columns)).maximum


def comparison_table(rows: Sequence[Row], columns: Sequence[_Column]) -> Table:
    """A row per policy, a column per metric; the best of a column stands out where the values differ."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("\npolicy", no_wrap=True)
    for column in columns:
        table.add_column(column.head, justify="right", no_wrap=True)
    best = [_best(column, rows) for column in columns]
    for row in rows:
        cells = [Text(row.policy, "bold")]
        for column, winning in zip(columns, best, strict=True):
            value = column.value(row)
            text = "-" if value is None else column.show(value)
            bad = column.key == "over_budget_bytes" and bool(value)
            style = "bold red" if bad else "green" if text == winning else "dim" if value is None else ""
            cells.append(Text(text, style))
        table.add_row(*cells)
    return table


def _best(column: _Column, rows: Sequence[Row]) -> str | None:
    """The best of a column as it is shown; None where there is nothing to choose from."""
    values = [value for row in rows if (value := column.value(row)) is not None]
    shown = {column.show(value) for value in values}
    if column.best == "none" or len(shown) < 2:
        return None
    return column.show(max(values) if column.best == "high" else min(values))


def remarks(rows: Sequence[Row]) -> list[str]:
    """What a table of averages hides: a changed budget, and jobs that failed or did not end."""
    lines = []
    if any(row.over_budget_bytes and row.metrics.budget_changes for row in rows):
        lines.append("The budget changed on the way: what was held when it was lowered counts as over budget.")
    for row in rows:
        done, possible = row.metrics.finished
        failed = [each for each in row.metrics.jobs if each.failure]
        lines += [f"{row.policy}: job {each.job.name} failed: {each.failure}" for each in failed]
        left = [each.job.name for each in row.metrics.finite if not (each.done or each.failure)]
        if left:
            named = ", ".join(left[:4]) + (", ..." if len(left) > 4 else "")
            lines.append(f"{row.policy}: {done} of {possible} jobs ended; these did not: {named}")
    return lines


def comparison_values(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same numbers, and those of each job, for a program."""
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
