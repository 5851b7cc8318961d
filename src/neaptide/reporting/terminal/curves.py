"""A memory curve drawn with characters: each row a round number of bytes, each column an equal time, phases below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
from rich.text import Text

from neaptide.core.traces.curve import MemoryCurve
from neaptide.core.traces.trace import Phase
from neaptide.core.units import format_bytes, format_seconds
from neaptide.reporting.figures.axes import byte_rows, time_axis
from neaptide.reporting.figures.trace_timeline import PhaseSpan

NARROWEST = 32
PHASE_STYLE = {Phase.FORWARD: "cyan", Phase.BACKWARD: "magenta", Phase.OPTIMIZER: "green", Phase.INFERENCE: "cyan"}
_PHASE_NAMES = {
    Phase.FORWARD: ("forward", "fwd", "f"),
    Phase.BACKWARD: ("backward", "bwd", "b"),
    Phase.OPTIMIZER: ("optimizer", "opt", "o"),
    Phase.INFERENCE: ("inference", "inf", "i"),
}


@dataclass(frozen=True, slots=True)
class _Characters:
    """The characters of a drawing. In a pair, the second stands beside a label."""

    eighths: str  # a cell from empty to full
    persistent: str
    peak: str
    side: str
    floor: str
    corner: str
    phase: str  # the left end, the middle, between two phases, the right end


_BLOCKS = _Characters(" ▁▂▃▄▅▆▇█", "▒", "▼", "│┤", "─┬", "└", "├─┼┤")
_ASCII = _Characters(" ....:::#", "=", "v", "|+", "-+", "+", "|-||")


def draw_curve(
    curve: MemoryCurve, phases: Sequence[PhaseSpan], persistent: int, *, width: int, height: int, ascii_only: bool
) -> list[Text]:
    """Lines of at most `width` characters. A column is as high as the curve's highest point in the column's time."""
    use = _ASCII if ascii_only else _BLOCKS
    axis = byte_rows(curve.peak, height)
    rows = max(1, -int(-curve.peak // axis.step))
    labels = {row: axis.label((row + 1) * axis.step) for row in range(rows) if row % 2 or rows < 4}
    margin = max(map(len, labels.values())) + 1
    columns = max(width, NARROWEST) - margin - 1
    levels = _column_levels(curve, columns)
    column_phases = _column_phases(curve, phases, columns)
    lines = [_peak_line(curve, levels, margin, use)]
    for row in reversed(range(rows)):
        line = Text(f"{labels.get(row, ''):>{margin - 1}} {use.side[row in labels]}")
        is_persistent = persistent >= (row + 0.5) * axis.step
        for level, phase in zip(levels, column_phases, strict=True):
            filled = int(np.clip(np.ceil((level / axis.step - row) * 8 - 1e-9), 0, 8))
            cell = use.persistent if filled == 8 and is_persistent else use.eighths[filled]
            line.append(cell, PHASE_STYLE[phase])
        lines.append(line)
    lines += _time_lines(curve.duration_ns * 1e-9, margin, columns, use)
    lines.append(_phase_line(column_phases, margin, use))
    if persistent >= axis.step / 2:
        lines.append(Text(f"{' ' * margin} {use.persistent} persistent  {use.eighths[8]} ephemeral", "dim"))
    for line in lines:
        line.rstrip()
    return lines


def _column_edges(curve: MemoryCurve, columns: int) -> npt.NDArray[np.int64]:
    return curve.start_ns + np.arange(columns + 1, dtype=np.int64) * curve.duration_ns // columns


def _column_levels(curve: MemoryCurve, columns: int) -> list[int]:
    """The highest level in each column's time; a column shorter than a nanosecond has the level at its start."""
    edges = _column_edges(curve, columns)
    first = curve.edges_ns.searchsorted(edges[:-1], side="right") - 1
    last = curve.edges_ns.searchsorted(np.maximum(edges[1:] - 1, edges[:-1]), side="right") - 1
    return [int(curve.bytes[a : b + 1].max()) for a, b in zip(first, last, strict=True)]


def _column_phases(curve: MemoryCurve, phases: Sequence[PhaseSpan], columns: int) -> list[Phase]:
    """The phase in the middle of each column; every phase gets at least one column."""
    edges = (_column_edges(curve, columns) - curve.start_ns) * 1e-9
    middles = (edges[:-1] + edges[1:]) / 2
    ends = [span.end_seconds for span in phases[:-1]]
    found = [phases[index].phase for index in np.searchsorted(ends, middles, side="right")]
    for span in sorted(phases, key=lambda span: -span.seconds):
        if span.phase not in found:
            middle = (span.start_seconds + span.end_seconds) / 2
            found[min(int(edges.searchsorted(middle, side="right")) - 1, columns - 1)] = span.phase
    return found


def _peak_line(curve: MemoryCurve, levels: Sequence[int], margin: int, use: _Characters) -> Text:
    """A mark above the highest column, with as many words beside the mark as there is room for."""
    at = int(np.argmax(levels))
    when_ns = int(curve.edges_ns[int(curve.bytes.argmax())]) - curve.start_ns
    short = f"peak {format_bytes(curve.peak)}"
    for words in (f"{short} at {format_seconds(when_ns * 1e-9)}", short):
        if at + 2 + len(words) <= len(levels):
            return Text(" " * (margin + 1 + at) + f"{use.peak} {words}", "bold")
        if len(words) + 1 <= at:
            return Text(" " * (margin + at - len(words)) + f"{words} {use.peak}", "bold")
    return Text(" " * (margin + 1 + at) + use.peak, "bold")


def _time_lines(seconds: float, margin: int, columns: int, use: _Characters) -> list[Text]:
    """The time axis with its ticks, and below it their labels."""
    axis = time_axis(seconds, max(1, columns // 12))
    floor, below = [use.floor[0]] * columns, [" "] * columns
    free = 0
    for tick in axis.ticks(seconds):
        column = min(columns - 1, round(tick / seconds * columns))
        label = axis.label(tick)
        start = min(max(0, column - len(label) // 2), columns - len(label))
        if start >= free:
            floor[column] = use.floor[1]
            below[start : start + len(label)] = label
            free = start + len(label) + 1
    return [Text(f"{'0':>{margin - 1}} {use.corner}{''.join(floor)}"), Text(" " * (margin + 1) + "".join(below))]


def _phase_line(column_phases: Sequence[Phase], margin: int, use: _Characters) -> Text:
    """The name of each phase below its columns, shortened if there is too little room."""
    left, dash, between, right = tuple(use.phase)
    line = Text(" " * margin + left)
    groups = [(phase, len(list(group))) for phase, group in groupby(column_phases)]
    for index, (phase, size) in enumerate(groups):
        is_last = index == len(groups) - 1
        room = size if is_last and size == 1 else size - 1  # the last column is for the border
        spaced = [f" {name} " for name in _PHASE_NAMES[phase]]
        name = next((name for name in (*spaced, *_PHASE_NAMES[phase]) if len(name) <= room), "")
        line.append(name.center(room, dash), PHASE_STYLE[phase])
        if room < size:
            line.append(right if is_last else between)
    return line
