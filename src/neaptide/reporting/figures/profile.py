"""A trace as a figure for a paper: the bytes held over the course of an iteration, stacked by kind of tensor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.core.units import format_bytes
from neaptide.reporting.figures.axes import Axis, byte_axis, time_axis
from neaptide.reporting.figures.files import save_figure
from neaptide.reporting.figures.trace_timeline import (
    STACKING,
    PhaseSpan,
    held_by_kind,
    highest_ops,
    level_start_seconds,
    phase_spans,
)

_COLUMN_INCHES = (3.4, 2.35)  # one column of a two-column paper
_STEPS = 600  # a column of that width cannot show more
_LEAST_PHASE = 0.004  # share of the iteration; a shorter phase cannot be seen
_LEAST_SHARE = 0.01  # of the peak; a thinner layer cannot be seen
_LETTER_SHARE = 0.026  # width of a letter, as a share of the plot's width
_GREY = {Phase.FORWARD: "#c9c9c9", Phase.BACKWARD: "#8c8c8c", Phase.OPTIMIZER: "#4a4a4a", Phase.INFERENCE: "#c9c9c9"}
_COLOUR = {
    Kind.FRAMEWORK: "#5c6670",
    Kind.PARAMETER: "#33506e",
    Kind.BUFFER: "#9aa5b1",
    Kind.OPTIMIZER: "#6f8fae",
    Kind.GRADIENT: "#e0a030",
    Kind.INPUT: "#7fb069",
    Kind.ACTIVATION: "#9cc3e0",
    Kind.TEMPORARY: "#d9796c",
}


def save_profile(trace: Trace, path: Path) -> None:
    """Draw a trace's memory over time into a PNG, SVG or PDF file; ValueError if the name ends otherwise."""

    def draw() -> Figure:
        figure = Figure(figsize=_COLUMN_INCHES, layout="constrained")
        draw_profile(trace, figure.add_subplot())
        figure.legend(loc="outside lower center", ncols=4, handlelength=1.1, handleheight=0.8, columnspacing=1.0)
        return figure

    save_figure(draw, path, dpi=300)


def draw_profile(trace: Trace, axes: Axes) -> None:
    """Draw a trace's memory over time."""
    seconds, top = max(trace.seconds, 1e-9), max(trace.peak_bytes, 1) * 1.14
    time, memory = time_axis(seconds, 6), byte_axis(top, 6)
    axes.set_xlim(0, seconds / time.unit)
    axes.set_ylim(0, top / memory.unit)
    axes.set_xticks([tick / time.unit for tick in time.ticks(seconds)], map(time.number, time.ticks(seconds)))
    axes.set_yticks([tick / memory.unit for tick in memory.ticks(top)], map(memory.number, memory.ticks(top)))
    axes.set_xlabel(f"Time ({time.name.replace('us', 'µs')})")
    axes.set_ylabel(f"Memory ({memory.name})")
    _draw_stack(trace, axes, time, memory)
    _draw_levels(trace, axes, time, memory)
    _draw_phases(phase_spans(trace, _LEAST_PHASE), seconds, axes, time)


def _draw_stack(trace: Trace, axes: Axes, time: Axis, memory: Axis) -> None:
    """Stack the bytes of each kind on the kinds below; the legend omits a kind too thin to be seen."""
    held = held_by_kind(trace)[:, highest_ops(trace, _STEPS)]
    edges = np.linspace(0.0, trace.seconds, _STEPS + 1) / time.unit
    ceilings = np.cumsum(held, axis=0) / memory.unit
    floor = np.zeros(_STEPS)
    for kind, amount, ceiling in zip(STACKING, held, ceilings, strict=True):
        name = kind.name.lower() if amount.max() >= _LEAST_SHARE * trace.peak_bytes else None
        axes.stairs(ceiling, edges, baseline=floor, fill=True, color=_COLOUR[kind], label=name, linewidth=0)
        floor = ceiling
    axes.stairs(ceilings[-1], edges, baseline=None, color="black", linewidth=0.5)


def _draw_levels(trace: Trace, axes: Axes, time: Axis, memory: Axis) -> None:
    """Draw the persistent bytes as a line and the peak as a point, each with its amount."""
    level, amount = trace.persistent_bytes / memory.unit, format_bytes(trace.persistent_bytes)
    axes.axhline(level, color="black", linewidth=0.8, linestyle=(0, (2.5, 1.5)), label="persistent")
    axes.annotate(
        amount, (1, level), xycoords=("axes fraction", "data"), xytext=(2, 0), textcoords="offset points", va="center"
    )
    peak_op = int(trace.held_bytes.argmax())
    at, peak = float(level_start_seconds(trace)[peak_op]), trace.peak_bytes / memory.unit
    share = at / max(trace.seconds, 1e-9)
    axes.plot([at / time.unit], [peak], marker="o", markersize=2.5, color="black", clip_on=False)
    axes.annotate(
        f"peak {format_bytes(trace.peak_bytes)}",
        (at / time.unit, peak),
        xytext=(0, 3),
        textcoords="offset points",
        ha="left" if share < 0.2 else "right" if share > 0.8 else "center",
        va="bottom",
    )


def _draw_phases(spans: Sequence[PhaseSpan], seconds: float, axes: Axes, time: Axis) -> None:
    """Draw a strip above the plot with a grey for each phase, and the names of phases that have room."""
    above = axes.get_xaxis_transform()
    free = 0.0  # where the last name ends, as a share of the width
    for span in spans:
        start, end = span.start_seconds / seconds, span.end_seconds / seconds
        x, width = span.start_seconds / time.unit, span.seconds / time.unit
        axes.add_patch(
            Rectangle((x, 1), width, 0.035, transform=above, clip_on=False, linewidth=0, color=_GREY[span.phase])
        )
        name = span.phase.name.lower()
        room = _LETTER_SHARE * len(name)
        if end - start >= room:
            axes.text(x + width / 2, 1.05, name, transform=above, ha="center", va="bottom")
            free = (start + end + room) / 2
        elif span is spans[-1]:  # the optimizer is often short; its name may extend over the phase before it
            fitting = [text for text in (name, f"{name[:3]}.") if 1 - free > _LETTER_SHARE * (len(text) + 1)]
            axes.text(x + width, 1.05, "".join(fitting[:1]), transform=above, ha="right", va="bottom")
