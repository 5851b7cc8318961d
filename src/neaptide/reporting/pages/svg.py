"""SVG drawings for a page: the bytes that jobs held, stacked under the budget, and what each job did when.

The drawings need no script, no font and no other file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from neaptide.core.control.events import JobArrived
from neaptide.core.control.job import JobState, display_state
from neaptide.core.traces.columns import Integers
from neaptide.core.units import format_bytes, format_seconds
from neaptide.reporting.figures.axes import Axis, byte_axis, time_axis
from neaptide.reporting.figures.colours import LIMIT, colour_of
from neaptide.reporting.figures.windows import Window, budget_over_time, level_at, sample
from neaptide.reporting.logs.activity import Span
from neaptide.reporting.logs.live_run import LiveRun

_WIDTH, _HEIGHT = 960, 230  # of the plot with its margins, in SVG units
_LEFT, _RIGHT, _TOP, _FOOT = 52, 8, 12, 34
_STEPS = 850  # about one per unit of width
_LANE, _LANE_GAP = 12, 4
_SHADE = {JobState.RUNNING: "1", JobState.READY: "0.22", JobState.QUEUED: "0.22", JobState.SUSPENDED: "0.45"}


def memory_svg(run: LiveRun, names: Sequence[str], window: Window, top_bytes: float, label: str) -> str:
    """Draw the jobs stacked in the order of `names`, which also decides their colours, and the budget as a line."""
    edges_ns, at_ns = sample(run.total, window, _STEPS)
    xs = _x(edges_ns, window)
    allowed = level_at(budget_over_time(run.budget_bytes, run.entries), at_ns)
    floor = np.zeros(at_ns.size, dtype=np.int64)
    parts = _frame(window, top_bytes)
    for index, name in enumerate(names):
        if name not in run.memory:
            continue
        held = level_at(run.memory[name], at_ns)
        path = _area(xs, _y(floor + held, top_bytes), _y(floor, top_bytes))
        most = format_bytes(int(held.max(initial=0)))
        parts.append(f'<path d="{path}" fill="{colour_of(index)}"><title>{escape(name)}, up to {most}</title></path>')
        floor += held
    parts += _arrivals(run, names, window)
    line = _steps(xs, _y(allowed, top_bytes))
    parts.append(f'<path d="M{line}" fill="none" stroke="{LIMIT}" stroke-width="1.5"><title>budget</title></path>')
    return _drawing(parts, _HEIGHT, label)


def lanes_svg(spans: Mapping[str, Sequence[Span]], names: Sequence[str], window: Window, label: str) -> str:
    """Draw a lane per job: bright inside an iteration, pale while the job waits, half-bright in host memory."""
    parts: list[str] = []
    present = [(index, name) for index, name in enumerate(names) if spans.get(name)]
    for row, (index, name) in enumerate(present):
        top = row * (_LANE + _LANE_GAP)
        for span in spans[name]:
            start_ns, end_ns = max(span.start_ns, window.start_ns), min(span.end_ns, window.end_ns)
            if end_ns <= start_ns:
                continue
            lasted = f"{display_state(span.state).word}, {format_seconds((span.end_ns - span.start_ns) / 1e9)}"
            left, right = _x(np.array([start_ns, end_ns], dtype=np.int64), window)
            parts.append(
                f'<rect x="{left:.2f}" y="{top}" width="{max(right - left - 0.6, 0.4):.2f}" height="{_LANE}" '
                f'fill="{colour_of(index)}" opacity="{_SHADE[span.state]}">'
                f"<title>{escape(name)}: {lasted}</title></rect>"
            )
    return _drawing(parts, max(1, len(present)) * (_LANE + _LANE_GAP), label)


def _arrivals(run: LiveRun, names: Sequence[str], window: Window) -> list[str]:
    """A line where each job arrives. Before that line the job is measured."""
    found = []
    for entry in run.entries:
        if isinstance(entry, JobArrived) and entry.job in names and window.start_ns <= entry.at_ns <= window.end_ns:
            x = float(_x(np.array([entry.at_ns], dtype=np.int64), window)[0])
            found.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _FOOT}" class="arrival" '
                f'stroke="{colour_of(names.index(entry.job))}">'
                f"<title>{escape(entry.job)} has been measured and arrives</title></line>"
            )
    return found


def _drawing(parts: Sequence[str], height: int, label: str) -> str:
    body = "\n".join(parts)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label, quote=True)}">\n{body}\n</svg>'


def _x(at_ns: Integers, window: Window) -> np.ndarray:
    share = (at_ns - window.start_ns) / max(window.end_ns - window.start_ns, 1)
    return np.asarray(_LEFT + share * (_WIDTH - _LEFT - _RIGHT))


def _y(amount: np.ndarray, top_bytes: float) -> np.ndarray:
    return np.asarray(_HEIGHT - _FOOT - amount / top_bytes * (_HEIGHT - _FOOT - _TOP))


def _steps(xs: np.ndarray, ys: np.ndarray, backwards: bool = False) -> str:
    """The path of a step line, with points only where the level changes."""
    points: list[str] = []
    order = range(ys.size - 1, -1, -1) if backwards else range(ys.size)
    last = None
    for index in order:
        here, end = (xs[index + 1], xs[index]) if backwards else (xs[index], xs[index + 1])
        level = f"{ys[index]:.1f}"
        if level != last:
            points.append(f"{here:.1f},{level}" if last is None else f"H{here:.1f}V{level}")
        last, final = level, end
    return "".join([*points, f"H{final:.1f}"])


def _area(xs: np.ndarray, ceiling: np.ndarray, floor: np.ndarray) -> str:
    return f"M{_steps(xs, ceiling)}L{_steps(xs, floor, backwards=True)}Z"


def _frame(window: Window, top_bytes: float) -> list[str]:
    memory, time = byte_axis(top_bytes, 4), time_axis(window.seconds, 8)
    parts = [_memory_tick(tick, memory, top_bytes) for tick in memory.ticks(top_bytes)]
    parts += [_time_tick(tick, time, window) for tick in time.ticks(window.seconds)]
    unit = time.name.replace("us", "µs")
    from_words = f"time from {window.start_ns / 1e9:.4g} s on" if window.start_ns else "time"
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" class="end">{from_words} ({unit})</text>')
    return parts


def _memory_tick(tick: float, axis: Axis, top_bytes: float) -> str:
    y = float(_y(np.array([tick]), top_bytes)[0])
    words = f'<text x="{_LEFT - 5}" y="{y + 3.5:.1f}" class="end">{axis.label(tick)}</text>'
    return f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>{words}'


def _time_tick(tick: float, axis: Axis, window: Window) -> str:
    x = float(_x(np.array([window.start_ns + tick * 1e9]), window)[0])
    return f'<text x="{x:.1f}" y="{_HEIGHT - _FOOT + 14}" class="middle">{axis.number(tick)}</text>'
