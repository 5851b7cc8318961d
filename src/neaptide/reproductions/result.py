"""The result of a reproduced experiment: our figures beside the published ones, goals, and three lists of notes.

The notes say what is only reported of the paper (not re-checked by us), what is unknown, and why our figures differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from neaptide.reporting.terminal.tables import plain_table


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, its name in JSON, and how to write a value. Without a heading it is in JSON only."""

    head: str
    key: str
    show: Callable[[Any], str] = str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values; None is shown as a dash."""

    key: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def values(self) -> list[dict[str, Any]]:
        return [dict(zip((column.key for column in self.columns), row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Beside:
    """One figure of the paper beside ours."""

    what: str
    published: str
    ours: str


@dataclass(frozen=True, slots=True)
class Goal:
    """What the experiment must show, what we found, and whether the goal holds."""

    says: str
    found: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A whole experiment. `figures` maps a file name to the function that draws that figure."""

    paper: str
    device: str
    setting: Sequence[str]
    tables: Sequence[Table]
    beside: Sequence[Beside]
    goals: Sequence[Goal]
    reported: Sequence[str]
    unknown: Sequence[str]
    differs: Sequence[str]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)


def percent(value: float) -> str:
    """A share of the device."""
    return f"{value:.0%}"


def print_reproduction(found: Reproduction, console: Console) -> None:
    """Print the result for people."""
    console.print(Text(f"{found.paper} on {found.device}", "bold"))
    _print_lines(found.setting, console)
    for table in found.tables:
        console.print()
        console.print(Text(table.title, "bold"))
        console.print(_rich(table))
        _print_lines(table.notes, console, "dim")
    console.print()
    console.print(Text("Ours beside the published", "bold"))
    console.print(_rich(_beside(found.beside)))
    console.print()
    console.print(Text("Goals", "bold"))
    for goal in found.goals:
        mark = Text("holds", "green") if goal.holds else Text("FAILS", "bold red")
        _print_item(mark, f"{goal.says}: {goal.found}", console)
    for name, lines in (
        ("Reported", found.reported),
        ("Unknown", found.unknown),
        ("Why ours differs", found.differs),
    ):
        console.print()
        console.print(Text(name, "bold"))
        for line in lines:
            _print_item(Text("-"), line, console)


def reproduction_values(found: Reproduction) -> dict[str, Any]:
    """The result for a program."""
    return {
        "paper": found.paper,
        "device": found.device,
        "setting": list(found.setting),
        "tables": {table.key: table.values() for table in found.tables},
        "beside": [{"what": each.what, "published": each.published, "ours": each.ours} for each in found.beside],
        "goals": [{"says": goal.says, "found": goal.found, "holds": goal.holds} for goal in found.goals],
        "reported": list(found.reported),
        "unknown": list(found.unknown),
        "differs": list(found.differs),
    }


def _beside(rows: Sequence[Beside]) -> Table:
    columns = (Column("figure", "what", left=True), Column("published", "published"), Column("ours", "ours"))
    return Table("beside", "", columns, [(each.what, each.published, each.ours) for each in rows])


def _print_lines(lines: Sequence[str], console: Console, style: str = "") -> None:
    for line in lines:
        console.print(Text(line, style))


def _print_item(mark: Text, line: str, console: Console) -> None:
    """Print a line behind a mark; a line longer than the width is indented below itself."""
    item = RichTable.grid(padding=(0, 1, 0, 0))
    item.add_row(mark, Text(line))
    console.print(item)


def _rich(table: Table) -> RichTable:
    made = plain_table()
    shown = [index for index, column in enumerate(table.columns) if column.head]
    for column in (table.columns[index] for index in shown):
        justify: Literal["left", "right"] = "left" if column.left else "right"
        made.add_column(Text(column.head), justify=justify, vertical="top", no_wrap=not column.left)
    for row in table.rows:
        cells = ((table.columns[index], row[index]) for index in shown)
        made.add_row(*(Text("-" if value is None else column.show(value)) for column, value in cells))
    return made
