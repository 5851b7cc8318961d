"""The bytes that jobs held over a run, stacked under the budget; one panel per policy, all on the same axes.

A run of many iterations gets a second column with a close-up, because jobs share memory within iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from neaptide.core.control.log_format import JobFacts
from neaptide.core.units import format_bytes
from neaptide.reporting.figures.axes import byte_axis, time_axis
from neaptide.reporting.figures.colours import COLOURS, LIMIT
from neaptide.reporting.figures.files import save_figure
from neaptide.reporting.figures.windows import Window, budget_over_time, close_up, level_at, sample
from neaptide.reporting.logs.comparison import Row, SimulatedRun
from neaptide.reporting.logs.copies import common_name, group_copies

_STEPS = 1100  # the width of a page cannot show more
_MEMORY_TICKS, _TIME_TICKS = 4, 6


def save_shared_memory(runs: Sequence[SimulatedRun], title: str, path: Path) -> None:
    """Draw runs of one scenario into a PNG, SVG or PDF file."""
    save_figure(partial(draw_shared_memory, runs, title), path)


def draw_shared_memory(runs: Sequence[SimulatedRun], title: str) -> Figure:
    """Draw a row per policy: the whole run and, if the run is long, a close-up beside it."""
    whole = Window(0, max(1, *(run.outcome.end_ns for run in runs)))
    close = close_up([run.row.metrics.jobs for run in runs])
    windows = [whole] if close is None else [whole, close]
    budget = budget_over_time(runs[0].outcome.budget_bytes, runs[0].outcome.entries)
    top = 1.08 * max(budget.peak_bytes, *(run.outcome.peak_bytes for run in runs))
    jobs = [record.job for record in runs[0].row.metrics.jobs]
    colours, names = _colours(jobs)
    figure = Figure(figsize=(7.2, 0.9 + 1.2 * len(runs)), layout="constrained")
    grid = figure.subplots(len(runs), len(windows), sharex="col", sharey=True, squeeze=False)
    for run, line in zip(runs, grid, strict=True):
        for axes, window in zip(line, windows, strict=True):
            _draw_panel(run, colours, window, _STEPS // len(windows), top, axes)
        line[0].set_title(run.row.policy, loc="left", fontweight="bold", fontsize=8)
        line[-1].set_title(_numbers(run.row), loc="right", fontsize=7.5)
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
    speedup = "" if row.speedup in (None, 1) else f"{row.speedup:.2f}x temporal, "
    over = f", {format_bytes(row.over_budget_bytes)} over" if row.over_budget_bytes else ""
    return f"{speedup}peak {format_bytes(row.peak_bytes)}{over}"


def _draw_panel(run: SimulatedRun, colours: Sequence[str], window: Window, steps: int, top: float, axes: Axes) -> None:
    outcome, memory = run.outcome, byte_axis(top, _MEMORY_TICKS)
    unit_ns = 1e9 * time_axis(window.seconds, _TIME_TICKS).unit  # of the time axis
    edges_ns, at_ns = sample(outcome.total, window, steps)
    edges = (edges_ns - window.start_ns) / unit_ns
    floor = np.zeros(at_ns.size)
    for record, colour in zip(run.row.metrics.jobs, colours, strict=True):
        ceiling = floor + level_at(outcome.memory[record.job.name], at_ns) / memory.unit
        axes.stairs(ceiling, edges, baseline=floor, fill=True, color=colour, linewidth=0)
        floor = ceiling
    budget = budget_over_time(outcome.budget_bytes, outcome.entries)
    allowed = level_at(budget, at_ns) / memory.unit
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
    """The colour of each job, and the legend. If jobs are many, copies share a colour, alternately full and pale."""
    if len(jobs) <= len(COLOURS):
        colours = list(COLOURS[: len(jobs)])
        return colours, [(job.name, colour) for job, colour in zip(jobs, colours, strict=True)]
    colours, names = [""] * len(jobs), []
    for index, group in enumerate(group_copies(jobs)):
        full = COLOURS[index % len(COLOURS)]
        for turn, position in enumerate(group):
            colours[position] = _pale(full) if turn % 2 else full
        names.append((common_name([jobs[position].name for position in group]), full))
    return colours, names if len(names) <= len(COLOURS) else []


def _pale(colour: str) -> str:
    red, green, blue = to_rgb(colour)
    return to_hex(((red + 0.8) / 1.8, (green + 0.8) / 1.8, (blue + 0.8) / 1.8))
