"""What planners made of one trace under one budget: a table for people, values for programs, a figure for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.core.units import format_bytes, format_seconds
from neaptide.planning.apply import Summary
from neaptide.planning.plan import Plan
from neaptide.reporting.figures.axes import byte_axis
from neaptide.reporting.figures.colours import COLOURS
from neaptide.reporting.figures.profile import STYLE, check_name, undated

_HEADS = ("planner", "peak", "time", "", "waiting", "swapped", "recomputed", "compressed", "planned in")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one planner did; without a summary it could not meet the budget, and reached `lowest_bytes`."""

    planner: str
    plan: Plan | None
    summary: Summary | None
    planner_seconds: float
    lowest_bytes: int = 0


def print_attempts(
    trace: Trace, device: DeviceSpec, budget_bytes: int, bound_bytes: int, attempts: Sequence[Attempt], out: Console
) -> None:
    """Print the table, the fastest plan first, and below it who could not."""
    batch = f", batch {trace.batch}" if trace.batch else ""
    out.print(Text(f"{trace.name}{batch} on {device.name}, within {format_bytes(budget_bytes)}", "bold"))
    out.print(
        Text(
            f"As it is: {format_bytes(trace.peak_bytes)}, of which {format_bytes(trace.persistent_bytes)} outlive an "
            f"iteration, in {format_seconds(trace.seconds)}. No plan can go below {format_bytes(bound_bytes)}."
        )
    )
    out.print()
    made = sorted((each for each in attempts if each.summary), key=lambda each: each.summary.seconds)  # type: ignore[union-attr]
    if made:
        out.print(_table(made))
    for each in attempts:
        if each.summary is None:
            out.print(Text(f"{each.planner} cannot: it reaches {format_bytes(each.lowest_bytes)}", "yellow"))
    if any(each.plan is not None and not each.plan.lossless for each in made):
        out.print(Text("* changes gradients: its codec is lossy", "yellow"))


def _table(made: Sequence[Attempt]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if index else "left", no_wrap=True)
    for each in made:
        summary, plan = each.summary, each.plan
        assert summary is not None
        assert plan is not None
        table.add_row(
            Text(each.planner + ("" if plan.lossless else " *"), "bold"),
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
    """The same numbers for a program."""
    return [
        {
            "planner": each.planner,
            "planner_seconds": each.planner_seconds,
            "fits": each.summary is not None,
            "lossless": each.plan is None or each.plan.lossless,
            **(asdict(each.summary) if each.summary else {"lowest_bytes": each.lowest_bytes}),
        }
        for each in attempts
    ]


def save_frontier(trace: Trace, lines: Mapping[str, Sequence[Attempt]], path: Path) -> None:
    """Draw what each planner's plans take, in time over that without a plan, against their peaks."""
    check_name(path)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        axes = figure.add_subplot()
        axis = byte_axis(trace.peak_bytes, 6)
        top = 1.0
        for index, (name, attempts) in enumerate(lines.items()):
            points = sorted((each.summary.peak_bytes, each.summary.seconds) for each in attempts if each.summary)
            points.append((trace.peak_bytes, trace.seconds))
            times = [seconds / trace.seconds for _, seconds in points]
            top = max(top, min(max(times), 3.0))
            own = name == "best"
            axes.plot(
                [held for held, _ in points],
                times,
                marker="o",
                markersize=3 if own else 2,
                linewidth=1.6 if own else 0.8,
                color="black" if own else COLOURS[index % len(COLOURS)],
                linestyle="-" if index < len(COLOURS) or own else "--",
                label=name,
                zorder=3 if own else 2,
            )
        axes.set_xticks(axis.ticks(trace.peak_bytes), [axis.number(tick) for tick in axis.ticks(trace.peak_bytes)])
        axes.set_xlim(0, trace.peak_bytes * 1.03)
        axes.set_ylim(0.97, 1 + (top - 1) * 1.08 + 0.01)
        axes.set_xlabel(f"Peak memory ({axis.name})")
        axes.set_ylabel("Time (x no plan)")
        axes.set_title(trace.name, loc="left", fontsize=8, fontweight="bold")
        figure.legend(loc="outside lower center", ncols=5, handlelength=1.4)
        figure.savefig(path, dpi=200, metadata=undated(path))
