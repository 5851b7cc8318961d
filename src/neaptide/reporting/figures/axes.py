"""Axes with round numbers, in units that people read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neaptide.core.units import GIB, KIB, MIB, TIB

_BYTES: Mapping[str, float] = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
_SECONDS: Mapping[str, float] = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_ROUND = (1.0, 2.0, 2.5, 5.0)
_ROUND_ROWS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)  # finer, so that few rows of a drawing stay empty


@dataclass(frozen=True, slots=True)
class Axis:
    """Ticks at multiples of `step`. Labels count in `name`; one of these is `unit` bytes or seconds."""

    step: float
    unit: float
    name: str

    def ticks(self, limit: float) -> list[float]:
        """The multiples of the step from zero to the limit."""
        return [index * self.step for index in range(math.floor(limit / self.step * (1 + 1e-9)) + 1)]

    def number(self, value: float) -> str:
        return f"{value / self.unit:.6g}"

    def label(self, value: float) -> str:
        """The value with its unit; zero has no unit."""
        return f"{self.number(value)} {self.name}" if value else "0"


def byte_axis(limit: float, steps: int) -> Axis:
    """An axis of bytes with at most `steps` steps up to the limit."""
    return _axis(max(limit, steps), steps, _BYTES, _ROUND)  # a step is at least one byte


def byte_rows(limit: float, rows: int) -> Axis:
    """An axis of bytes for a drawing of at most `rows` rows: a row is one step, and as many as possible are used."""
    return _axis(max(limit, rows), rows, _BYTES, _ROUND_ROWS)


def time_axis(limit: float, steps: int) -> Axis:
    """An axis of seconds with at most `steps` steps up to the limit."""
    return _axis(limit, steps, _SECONDS, _ROUND)


def _axis(limit: float, steps: int, units: Mapping[str, float], round_numbers: Sequence[float]) -> Axis:
    name = max(
        (name for name, size in units.items() if size <= limit), key=units.__getitem__, default=next(iter(units))
    )
    unit = units[name]
    least = limit / steps / unit
    decade = 10.0 ** math.floor(math.log10(least))
    step = next(factor * decade for factor in (*round_numbers, 10.0) if factor * decade >= least * (1 - 1e-9))
    return Axis(step * unit, unit, name)
