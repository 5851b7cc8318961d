"""The figures of a benchmark, their goals, and how they are shown.

A benchmark is a file with `def figures() -> Iterator[Figure]`; `neaptide bench NAME` runs it.
"""

from __future__ import annotations

import operator
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import msgspec
from rich.table import Table
from rich.text import Text

from neaptide import __version__
from neaptide.reporting.terminal.tables import plain_table

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
_GOAL = re.compile(r"\s*(<=|>=|==|<|>)\s*([+-]?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a benchmark measured. `goal` is empty or a bound such as `<= 15`, in the same unit."""

    name: str
    value: float
    unit: str
    goal: str = ""

    def __post_init__(self) -> None:
        if self.goal and not _GOAL.fullmatch(self.goal):
            raise ValueError(f"{self.name}: {self.goal!r} is not a goal; write it like '<= 15'")

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None if there is no goal."""
        match = _GOAL.fullmatch(self.goal)
        return _COMPARE[match[1]](self.value, float(match[2])) if match else None


def figures_table(name: str, figures: Sequence[Figure]) -> Table:
    """The figures of a benchmark as a table."""
    table = plain_table(f"bench {name}")
    table.add_column("figure", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("goal", no_wrap=True)
    table.add_column("met", no_wrap=True)
    for figure in figures:
        met = {True: Text("yes", "green"), False: Text("NO", "bold red"), None: Text()}[figure.met]
        table.add_row(Text(figure.name), _number(figure.value), Text(figure.unit), Text(figure.goal), met)
    return table


def figure_line(figure: Figure) -> str:
    """One figure as a line of text, for a log."""
    goal = f" (goal {figure.goal})" if figure.goal else ""
    return f"{figure.name}: {_number(figure.value)} {figure.unit}{goal}"


def figures_json(name: str, figures: Sequence[Figure]) -> str:
    """The figures of a benchmark as one line of JSON, with the versions and the processors they depend on."""
    rows = [
        {"name": each.name, "value": each.value, "unit": each.unit, "goal": each.goal, "met": each.met}
        for each in figures
    ]
    versions = {"neaptide": __version__, "python": platform.python_version(), "torch": version("torch")}
    report = {"name": name, "figures": rows, "versions": versions, "cpus": os.cpu_count()}
    return msgspec.json.encode(report).decode()  # encodes a value that is not finite as null


def _number(value: float) -> str:
    """At least four digits, and no exponent below 1e15."""
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"
