"""Drawings of a page as values: bytes over time under the budget. Templates turn them into SVG and labels.

Across, everything is in parts of WIDTH, so that a browser can stretch a drawing without stretching its text. Down, it
is in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neaptide.core.units import format_bytes
from neaptide.reporting.figures.axes import byte_axis, time_axis
from neaptide.reporting.figures.colours import colour_of
from neaptide.reporting.figures.windows import Window, budget_over_time, level_at, sample
from neaptide.reporting.logs.live_run import LiveRun

WIDTH = 1000
_STEPS = 900  # a browser shows about one per pixel
_TIME_TICKS, _MEMORY_TICKS = 10, 4


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a time and an amount of memory are in a drawing."""

    window: Window
    top_bytes: float
    height: int

    def x(self, at_ns: float) -> float:
        return WIDTH * (at_ns - self.window.start_ns) / max(self.window.end_ns - self.window.start_ns, 1)

    def y(self, amount: float) -> float:
        return self.height * (1 - amount / self.top_bytes)

    def percent(self, at_ns: float) -> float:
        """The place of a time, in per cent of the width."""
        return 100 * self.x(at_ns) / WIDTH


@dataclass(frozen=True, slots=True)
class Tick:
    """A number at an axis; a `minor` one is left out where there is little room."""

    place: float  # per cent of the width, or pixels from above
    words: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Area:
    """What one job held."""

    path: str
    colour: str
    words: str


@dataclass(frozen=True, slots=True)
class Plot:
    """The bytes that jobs held in a window, stacked, and the budget."""

    height: int
    areas: tuple[Area, ...]
    budget: str  # the path of its line
    words: str
    memory_ticks: tuple[Tick, ...]
    time_ticks: tuple[Tick, ...]
    time_unit: str


def memory_plot(run: LiveRun, names: Sequence[str], scale: Scale, words: str) -> Plot:
    """Stack the jobs in the order of `names`, which also decides their colours."""
    edges_ns, at_ns = sample(run.total, scale.window, _STEPS)
    xs = [scale.x(edge) for edge in edges_ns.tolist()]
    floor = np.zeros(at_ns.size, dtype=np.int64)
    areas = []
    for index, name in enumerate(names):
        if name in run.memory:
            held = level_at(run.memory[name], at_ns)
            path = _area(xs, _ys(floor + held, scale), _ys(floor, scale))
            areas.append(Area(path, colour_of(index), f"{name}, up to {format_bytes(int(held.max(initial=0)))}"))
            floor += held
    allowed = level_at(budget_over_time(run.budget_bytes, run.entries), at_ns)
    return Plot(
        height=scale.height,
        areas=tuple(areas),
        budget=f"M{_steps(xs, _ys(allowed, scale))}",
        words=words,
        memory_ticks=_memory_ticks(scale),
        time_ticks=time_ticks(scale),
        time_unit=_unit(scale.window),
    )


def time_ticks(scale: Scale) -> tuple[Tick, ...]:
    """Round numbers of seconds from the start of the window on; every other one is minor."""
    seconds = scale.window.seconds
    axis = time_axis(seconds, _TIME_TICKS)
    return tuple(
        Tick(scale.percent(scale.window.start_ns + tick * 1e9), axis.number(tick), minor=bool(index % 2))
        for index, tick in enumerate(axis.ticks(seconds))
    )


def _unit(window: Window) -> str:
    return time_axis(window.seconds, _TIME_TICKS).name.replace("us", "µs")


def _memory_ticks(scale: Scale) -> tuple[Tick, ...]:
    axis = byte_axis(scale.top_bytes, _MEMORY_TICKS)
    return tuple(Tick(scale.y(tick), axis.label(tick)) for tick in axis.ticks(scale.top_bytes))


def _ys(amounts: np.ndarray, scale: Scale) -> list[float]:
    return [scale.y(amount) for amount in amounts.tolist()]


def _area(xs: Sequence[float], ceiling: Sequence[float], floor: Sequence[float]) -> str:
    return f"M{_steps(xs, ceiling)}L{_steps(xs, floor, backwards=True)}Z"


def _steps(xs: Sequence[float], ys: Sequence[float], backwards: bool = False) -> str:
    """The path of a step line, with points only where the level changes."""
    points: list[str] = []
    last, final = "", 0.0
    for index in range(len(ys) - 1, -1, -1) if backwards else range(len(ys)):
        here, final = (xs[index + 1], xs[index]) if backwards else (xs[index], xs[index + 1])
        level = f"{ys[index]:.1f}"
        if level != last:
            points.append(f"H{here:.1f}V{level}" if last else f"{here:.1f},{level}")
        last = level
    return "".join([*points, f"H{final:.1f}"])
