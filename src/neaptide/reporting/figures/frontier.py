"""Time against memory: what each planner's plans of one trace cost at several budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from neaptide.core.traces.trace import Trace
from neaptide.planning.apply import Summary
from neaptide.reporting.figures.axes import byte_axis
from neaptide.reporting.figures.colours import COLOURS, colour_of
from neaptide.reporting.figures.files import save_figure


def save_frontier(trace: Trace, plans: Mapping[str, Sequence[Summary]], path: Path) -> None:
    """Draw the time of each planner's plans, over the time without a plan, against their peaks."""

    def draw() -> Figure:
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        axes = figure.add_subplot()
        axis = byte_axis(trace.peak_bytes, 6)
        top = 1.0
        for index, (name, summaries) in enumerate(plans.items()):
            points = sorted((each.peak_bytes, each.seconds) for each in summaries)
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
                color="black" if own else colour_of(index),
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
        return figure

    save_figure(draw, path)
