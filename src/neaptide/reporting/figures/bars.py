"""Bar charts for a paper: a group of bars per experiment, a bar per policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.figures.files import save_figure


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar chart. `reference` is the height of a horizontal line, such as a baseline at 1."""

    label: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float]]
    reference: float | None = None
    title: str = ""


def save_bars(bars: Bars, path: Path) -> None:
    """Draw bars into a PNG, SVG or PDF file."""

    def draw() -> Figure:
        inches = max(4.2, 0.7 + 0.11 * len(bars.groups) * len(bars.series))
        figure = Figure(figsize=(inches, 2.4), layout="constrained")
        axes = figure.add_subplot()
        width = 0.82 / len(bars.series)
        for index, (name, heights) in enumerate(bars.series.items()):
            left = [group - 0.41 + index * width for group in range(len(bars.groups))]
            axes.bar(left, heights, width * 0.94, align="edge", color=colour_of(index), label=name)
        if bars.reference is not None:
            axes.axhline(bars.reference, color="black", linewidth=0.6, linestyle=(0, (2.5, 1.5)))
        axes.set_xticks(range(len(bars.groups)), bars.groups)
        if len(bars.groups) > 8:
            for label in axes.get_xticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.6, len(bars.groups) - 0.4)
        axes.set_ylabel(bars.label)
        axes.set_title(bars.title, loc="left", fontsize=8, fontweight="bold")
        columns = max(1, int(inches // 1.05))
        figure.legend(loc="outside lower center", ncols=columns, handlelength=1.1, handleheight=0.8)
        return figure

    save_figure(draw, path)
