"""What the jobs held over a run, stacked under the budget, a panel per policy on the same axes.

A run of many iterations gets a second column, a close-up: it is within iterations that memory is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from neaptide.core.units import format_bytes
from neaptide.reporting.figures.axes import byte_axis, time_axis
from neaptide.reporting.figures.colours import COLOURS, LIMIT
from neaptide.reporting.figures.profile import STYLE, check_name, undated
from neaptide.reporting.logs.alike import alike, common_name
from neaptide.reporting.logs.records import JobFacts
from neaptide.reporting.logs.windows import Window, budgets, close_up, level_at, sample
from neaptide.reporting.terminal.comparison import Row
from neaptide.simulation import Outcome

_STEPS = 1100  # over the width of a page; more cannot be told apart
_MEMORY_TICKS, _TIME_TICKS = 4, 6


@dataclass(frozen=True, slots=True)
class Panel:
    """One policy's run and what it was worth."""

    outcome: Outcome
    row: Row


def save_shared_memory(panels: Sequence[Panel], title: str, path: Path) -> None:
    """Draw runs of one scenario into a PNG, SVG or PDF file."""
    check_name(path)
    with matplotlib.rc_context(STYLE):
        draw_shared_memory(panels, title).savefig(path, dpi=200, metadata=undated(path))


def draw_shared_memory(panels: Sequence[Panel], title: str) -> Figure:
    """A row per policy: the whole run and, if it is long, a close-up beside it."""
    whole = Window(0, max(1, *(panel.outcome.end_ns for panel in panels)))
    close = close_up([panel.row.metrics.jobs for panel in panels])
    windows = [whole] if close is None else [whole, close]
    allowed = budgets(panels[0].outcome.budget_bytes, panels[0].outcome.entries)[1].max()
    top = 1.08 * max(allowed, *(panel.outcome.peak_bytes for panel in panels))
    jobs = [record.job for record in panels[0].row.metrics.jobs]
    colours, names = _colours(jobs)
    figure = Figure(figsize=(7.2, 0.9 + 1.2 * len(panels)), layout="constrained")
    grid = figure.subplots(len(panels), len(windows), sharex="col", sharey=True, squeeze=False)
    for panel, line in zip(panels, grid, strict=True):
        for axes, window in zip(line, windows, strict=True):
            _draw_panel(panel, colours, window, _STEPS // len(windows), top, axes)
        line[0].set_title(panel.row.policy, loc="left", fontweight="bold", fontsize=8)
        line[-1].set_title(_numbers(panel.row), loc="right", fontsize=7.5)
    for axes, window in zip(grid[-1], windows, strict=True):
        _label_time(axes, window)
    figure.supylabel(f"Memory ({byte_axis(top, _MEMORY_TICKS).name})", fontsize=7.5)
    figure.suptitle(title, x=0.012, ha="left", fontsize=8.5)
    figure.legend(
        handles=[
            *(Patch(color=colour, label=name) for name, colour in names),
            Line2D([], [], color=LIMIT, linewidth=0.9, label="budget"),
        ],
        loc="outside lower center",
        ncols=6,
        handlelength=1.1,
        handleheight=0.8,
        columnspacing=1.2,
    )
    return figure


def _numbers(row: Row) -> str:
    speedup = "" if row.speedup == 1 else f"{row.speedup:.2f}x temporal, "
    over = f", {format_bytes(row.over_budget_bytes)} over" if row.over_budget_bytes else ""
    return f"{speedup}peak {format_bytes(row.peak_bytes)}{over}"


def _draw_panel(panel: Panel, colours: Sequence[str], window: Window, steps: int, top: float, axes: Axes) -> None:
    outcome, memory = panel.outcome, byte_axis(top, _MEMORY_TICKS)
    second = 1e9 * time_axis(window.seconds, _TIME_TICKS).unit  # in nanoseconds, of what the axis counts
    edges_ns, at_ns = sample(outcome.total, window, steps)
    edges = (edges_ns - window.start_ns) / second
    floor = np.zeros(at_ns.size)
    for record, colour in zip(panel.row.metrics.jobs, colours, strict=True):
        ceiling = floor + level_at(outcome.memory[record.job.name], at_ns) / memory.unit
        axes.stairs(ceiling, edges, baseline=floor, fill=True, color=colour, linewidth=0)
        floor = ceiling
    since_ns, amounts = budgets(outcome.budget_bytes, outcome.entries)
    allowed = amounts[since_ns.searchsorted(at_ns, side="right") - 1] / memory.unit
    over = np.maximum(floor, allowed)
    axes.stairs(over, edges, baseline=allowed, fill=True, color=LIMIT, alpha=0.5, linewidth=0)
    axes.stairs(allowed, edges, baseline=None, color=LIMIT, linewidth=0.9)
    axes.set_xlim(0, edges[-1])
    axes.set_ylim(0, top / memory.unit)
    axes.set_yticks([tick / memory.unit for tick in memory.ticks(top)], map(memory.number, memory.ticks(top)))


def _label_time(axes: Axes, window: Window) -> None:
    axis = time_axis(window.seconds, _TIME_TICKS)
    ticks = axis.ticks(window.seconds)
    axes.set_xticks([tick / axis.unit for tick in ticks], map(axis.number, ticks))
    words = f"Close-up: time from {window.start_ns / 1e9:.4g} s on" if window.start_ns else "Time"
    axes.set_xlabel(f"{words} ({axis.name.replace('us', 'µs')})")


def _colours(jobs: Sequence[JobFacts]) -> tuple[list[str], list[tuple[str, str]]]:
    """Each job's colour, and what the legend says; copies share a colour, in turn full and pale, if jobs are many."""
    if len(jobs) <= len(COLOURS):
        colours = list(COLOURS[: len(jobs)])
        return colours, [(job.name, colour) for job, colour in zip(jobs, colours, strict=True)]
    colours, names = [""] * len(jobs), []
    for index, group in enumerate(alike(jobs)):
        full = COLOURS[index % len(COLOURS)]
        for turn, position in enumerate(group):
            colours[position] = _pale(full) if turn % 2 else full
        names.append((common_name([jobs[position].name for position in group]), full))
    return colours, names if len(names) <= len(COLOURS) else []


def _pale(colour: str) -> str:
    red, green, blue = to_rgb(colour)
    return to_hex(((red + 0.8) / 1.8, (green + 0.8) / 1.8, (blue + 0.8) / 1.8))
