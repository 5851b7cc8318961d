"""Reproductions in the terminal: one experiment whole, or the claims of all papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from neaptide.reporting.terminal.tables import plain_table
from neaptide.reproductions.claims import Claim, Verdict, count_verdicts, other_settings, totals
from neaptide.reproductions.result import Goal, Reproduction, Table

_STYLES = {Verdict.HOLDS: "green", Verdict.DOES_NOT: "bold red", Verdict.CANNOT: "yellow"}


def print_reproduction(found: Reproduction, console: Console) -> None:
    """Print one experiment with all its tables."""
    _print_title(f"{found.paper} on {found.device}", console)
    for line in found.setting:
        console.print(Text(line))
    for table in found.tables:
        console.print()
        _print_title(table.title, console)
        console.print(_rich(table))
        for line in table.notes:
            console.print(Text(line, "dim"))
    console.print()
    _print_title("Claims of the paper", console)
    console.print(claims_table(found.claims))
    console.print()
    _print_title("Our own goals", console)
    _print_goals(found.goals, console)
    for name, lines in (
        ("In what our setting differs", other_settings(found.claims)),
        ("Unknown", found.unknown),
        ("Why ours differs", found.differs),
    ):
        console.print()
        _print_title(name, console)
        for line in lines:
            _print_item(Text("-"), line, console)


def print_claims(found: Reproduction, console: Console) -> None:
    """Print the claims and the goals of one paper, without its tables."""
    _print_title(f"{found.paper} on {found.device}", console)
    console.print(claims_table(found.claims))
    if found.goals:
        _print_goals(found.goals, console)
    console.print()


def print_summary(found: Sequence[Reproduction], failed: Mapping[str, str], console: Console) -> None:
    """Print one line per paper: how many claims have which verdict; then the papers that could not be run."""
    table = plain_table()
    for head in ("paper", *(verdict.value for verdict in Verdict), "our own goals that hold"):
        table.add_column(head, justify="left" if head == "paper" else "right")
    for each in found:
        counts = [str(count) for count in count_verdicts(each.claims).values()]
        table.add_row(Text(each.paper), *counts, _goals_that_hold(each.goals))
    _print_title("All papers", console)
    console.print(table)
    console.print(totals([claim for each in found for claim in each.claims]))
    for paper, why in failed.items():
        _print_item(Text("could not be run", "bold red"), f"{paper}: {why}", console)


def claims_table(claims: Sequence[Claim]) -> RichTable:
    """Published beside ours, how we know the published figure, whether the setting is the same, and the verdict."""
    table = plain_table()
    widest = {"published": 16, "ours": 19, "verdict": 16}  # the rest is for the claims: long lines are read faster
    for head in ("claim", "published", "known", "ours", "setting", "verdict"):
        fixed = head in ("known", "setting")
        table.add_column(head, max_width=widest.get(head), no_wrap=fixed, overflow="fold", vertical="top")
    for claim in claims:
        verdict = Text(claim.verdict.value, _STYLES[claim.verdict])
        if claim.marked:
            verdict.append(f" ({', '.join(mark.value for mark in claim.marked)})", "dim")
        setting = "same" if claim.same_setting else "other"
        table.add_row(Text(claim.says), Text(claim.published), claim.source.value, Text(claim.ours), setting, verdict)
    return table


def _print_goals(goals: Sequence[Goal], console: Console) -> None:
    if not goals:
        console.print("None.")
    for goal in goals:
        mark = Text("holds", "green") if goal.holds else Text("FAILS", "bold red")
        _print_item(mark, f"{goal.says}: {goal.found}", console)


def _goals_that_hold(goals: Sequence[Goal]) -> str:
    return f"{sum(goal.holds for goal in goals)} of {len(goals)}" if goals else "none"


def _print_title(title: str, console: Console) -> None:
    console.print(Text(title, "bold"))


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
