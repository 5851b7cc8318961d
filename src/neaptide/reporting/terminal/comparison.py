"""Policies compared in a terminal: a row per policy, in as many tables as the width needs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from neaptide.reporting.logs.comparison import Column, Row, basis, remarks, shown_columns
from neaptide.reporting.terminal.tables import plain_table


def print_comparison(rows: Sequence[Row], console: Console, notes: Sequence[str] | None = None) -> None:
    """Print the comparison, and below it the notes: if there are none, the jobs that failed or did not end."""
    columns = shown_columns(rows)
    parts = [columns]
    while any(_width(rows, part, console) > console.width for part in parts) and len(parts) < len(columns):
        count = len(parts) + 1
        parts = [columns[i * len(columns) // count : (i + 1) * len(columns) // count] for i in range(count)]
    for index, part in enumerate(parts):
        if index:
            console.print()
        console.print(comparison_table(rows, part))
    console.print(Text(basis(rows), "dim"))
    for line in remarks(rows) if notes is None else notes:
        console.print(Text(line, "yellow"))


def _width(rows: Sequence[Row], columns: Sequence[Column], console: Console) -> int:
    return Measurement.get(console, console.options.update_width(1000), comparison_table(rows, columns)).maximum


def comparison_table(rows: Sequence[Row], columns: Sequence[Column]) -> Table:
    """A row per policy, a column per metric; the best value of a column is green if values differ."""
    table = plain_table()
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


def _best(column: Column, rows: Sequence[Row]) -> str | None:
    """The best value of a column as it is shown; None if all values look the same or none is better."""
    values = [value for row in rows if (value := column.value(row)) is not None]
    shown = {column.show(value) for value in values}
    if column.best == "none" or len(shown) < 2:
        return None
    return column.show(max(values) if column.best == "high" else min(values))
