"""The jobs of a scenario as a table, printed before a run: what each job needs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from neaptide.core.control.job import JobKind
from neaptide.core.control.log_format import facts_of
from neaptide.core.units import format_bytes, format_seconds
from neaptide.reporting.logs.copies import common_name, group_copies
from neaptide.reporting.terminal.tables import plain_table
from neaptide.simulation import Submission

_NARROW = 96


def workload_table(submissions: Sequence[Submission], width: int) -> Table:
    """A row per job; copies share a row. A narrow terminal has no column for the names of traces."""
    facts = facts_of(submission.job for submission in submissions)
    framework = any(each.framework_bytes for each in facts)
    table = plain_table()
    table.add_column("job", no_wrap=True, overflow="ellipsis")
    if width >= _NARROW:
        table.add_column("trace", no_wrap=True, overflow="ellipsis")
    memory = ["framework"] if framework else []
    for head in ("batch", *memory, "persistent", "ephemeral", "alone", "iterations", "arrives"):
        table.add_column(head, justify="right", no_wrap=True)
    for group in group_copies(facts):
        first, copies = facts[group[0]], [submissions[position] for position in group]
        trace = copies[0].job.trace
        name = [Text(trace.name)] if width >= _NARROW else []
        table.add_row(
            Text(common_name([each.job.name for each in copies]), "bold"),
            *name,
            str(trace.batch) if trace.batch else "",
            *([format_bytes(first.framework_bytes)] if framework else []),
            format_bytes(first.persistent_bytes),
            format_bytes(first.peak_bytes - first.persistent_bytes),
            format_seconds(first.solo_ns / 1e9),
            _work(copies),
            _span([each.arrives_ns for each in copies]),
        )
    return table


def _work(copies: Sequence[Submission]) -> str:
    if copies[0].job.kind is JobKind.INFERENCE:
        return f"{_range([len(each.requests_ns) for each in copies])} requests"
    counts = [each.job.iterations for each in copies]
    if None in counts:
        return "until stopped"
    return _range([count or 0 for count in counts])


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _span(arrivals_ns: Sequence[int]) -> str:
    low, high = min(arrivals_ns), max(arrivals_ns)
    return format_seconds(low / 1e9) if low == high else f"{low / 1e9:.3g}-{high / 1e9:.3g} s"
