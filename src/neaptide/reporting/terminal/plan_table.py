"""Plans of several planners for one trace and one budget: a table for people, and the same numbers for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.core.units import format_bytes, format_seconds
from neaptide.planning.apply import Summary
from neaptide.planning.plan import Plan
from neaptide.reporting.terminal.tables import plain_table

_HEADS = ("planner", "peak", "time", "", "waiting", "swapped", "recomputed", "compressed", "planned in")


@dataclass(frozen=True, slots=True)
class Attempt:
    """The plan of one planner; or without a summary the lowest peak of a planner that did not meet the budget."""

    planner: str
    plan: Plan | None
    summary: Summary | None
    planner_seconds: float
    lowest_bytes: int = 0


def print_attempts(
    trace: Trace, device: DeviceSpec, budget_bytes: int, bound_bytes: int, attempts: Sequence[Attempt], out: Console
) -> None:
    """Print the table, the fastest plan first, and below it the planners that did not meet the budget."""
    batch = f", batch {trace.batch}" if trace.batch else ""
    out.print(Text(f"{trace.name}{batch} on {device.name}, within {format_bytes(budget_bytes)}", "bold"))
    out.print(
        Text(
            f"Unplanned: {format_bytes(trace.peak_bytes)}, of which {format_bytes(trace.persistent_bytes)} outlive"
            f" an iteration, in {format_seconds(trace.seconds)}. In this order of ops no plan can go below"
            f" {format_bytes(bound_bytes)}."
        )
    )
    out.print()
    made = sorted((each for each in attempts if each.summary), key=lambda each: each.summary.seconds)  # type: ignore[union-attr]
    if made:
        out.print(_table(made))
    if cannot := sorted((each for each in attempts if each.summary is None), key=lambda each: each.lowest_bytes):
        out.print(Text(_cannot(cannot, none_can=not made), "yellow"))
    if any(each.plan is not None and not each.plan.lossless for each in made):
        out.print(Text("* this plan changes gradients: its codec is lossy", "yellow"))
    if any(each.plan is not None and each.plan.order for each in made):
        out.print(Text("+ this plan runs ops in another order, which a program that runs eagerly cannot do", "yellow"))


def _cannot(attempts: Sequence[Attempt], none_can: bool) -> str:
    """One sentence about the planners that did not meet the budget. If none met it, only the nearest is named."""
    nearest, lowest = attempts[0].planner, format_bytes(attempts[0].lowest_bytes)
    if len(attempts) == 1:
        return f"{nearest} cannot meet the budget: it reaches {lowest}"
    if none_can:
        return f"none of the {len(attempts)} planners can meet the budget; {nearest} comes nearest, with {lowest}"
    names = ", ".join(each.planner for each in attempts)
    return f"{len(attempts)} planners cannot meet the budget; {nearest} comes nearest, with {lowest}: {names}"


def _table(made: Sequence[Attempt]) -> Table:
    table = plain_table()
    for index, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if index else "left", no_wrap=True)
    for each in made:
        summary, plan = each.summary, each.plan
        assert summary is not None
        assert plan is not None
        table.add_row(
            Text(each.planner + ("" if plan.lossless else " *") + (" +" if plan.order else ""), "bold"),
            format_bytes(summary.peak_bytes),
            format_seconds(summary.seconds),
            f"{summary.seconds / summary.unplanned_seconds:.2f}x",
            _or_dash(format_seconds(summary.waited_seconds), summary.waited_seconds),
            _or_dash(format_bytes(summary.swapped_bytes), summary.swapped_bytes),
            _or_dash(format_bytes(summary.recomputed_bytes), summary.recomputed_bytes),
            _or_dash(format_bytes(summary.compressed_bytes), summary.compressed_bytes),
            format_seconds(each.planner_seconds),
        )
    return table


def _or_dash(text: str, value: float) -> str:
    return text if value else "-"


def attempt_values(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """The numbers of the table, for a program."""
    return [
        {
            "planner": each.planner,
            "planner_seconds": each.planner_seconds,
            "fits": each.summary is not None,
            "lossless": each.plan is None or each.plan.lossless,
            "reorders": each.plan is not None and bool(each.plan.order),
            **(asdict(each.summary) if each.summary else {"lowest_bytes": each.lowest_bytes}),
        }
        for each in attempts
    ]
