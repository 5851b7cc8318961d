"""Bytes and seconds as people write them: `2GiB`, `50ms`."""

from __future__ import annotations

import re
from collections.abc import Mapping

KIB, MIB, GIB, TIB = (1 << shift for shift in (10, 20, 30, 40))

_BYTES: Mapping[str, int] = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12,
    "ki": KIB, "kib": KIB, "mi": MIB, "mib": MIB, "gi": GIB, "gib": GIB, "ti": TIB, "tib": TIB,
}  # fmt: skip
_SECONDS: Mapping[str, float] = {
    "ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6,  # the micro sign, and the Greek letter
    "ms": 1e-3, "": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0,
}  # fmt: skip
_MOST = 2.0**63  # bytes and nanoseconds are counted in 64 bits
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?\s*([a-zµ]*)\s*", re.IGNORECASE)


def _parse(text: str, units: Mapping[str, float], limit: float, what: str, example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    factor = units.get(match[3].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not {what}; write it like {example}")
    value = float(match[1] + (match[2] or "")) * factor
    if value >= limit:
        raise ValueError(f"{text!r} is too large for {what}")
    return value


def parse_bytes(text: str) -> int:
    """Bytes from text such as `2GiB`, `1.5 MB` or `4096`; GB is 10^9, GiB is 2^30."""
    return round(_parse(text, _BYTES, _MOST, "an amount of memory", "2GiB or 500MB"))


def parse_seconds(text: str) -> float:
    """Seconds from text such as `50ms`, `1.5s` or `2`."""
    return _parse(text, _SECONDS, _MOST * 1e-9, "a duration", "50ms or 1.5s")


def format_bytes(amount: float) -> str:
    """Bytes for people, in binary units with three significant digits: `1.50 GiB`."""
    magnitude = abs(amount)
    if magnitude < KIB - 0.5:
        return f"{amount:.0f} B"
    for unit, name in ((KIB, "KiB"), (MIB, "MiB"), (GIB, "GiB")):
        if magnitude < 999.5 * unit:
            return f"{_three_digits(amount / unit)} {name}"
    return f"{_three_digits(amount / TIB)} TiB"


def format_seconds(seconds: float) -> str:
    """Seconds for people with three significant digits: `12.3 ms`."""
    magnitude = abs(seconds)
    if magnitude == 0:
        return "0 s"
    for unit, name in ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms")):
        if magnitude < 999.5 * unit:
            return f"{_three_digits(seconds / unit)} {name}"
    if magnitude < 600:
        return f"{_three_digits(seconds)} s"
    return f"{_three_digits(seconds / 60)} min" if magnitude < 36000 else f"{_three_digits(seconds / 3600)} h"


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    digits = 3 if magnitude < 0.9995 else 2 if magnitude < 9.995 else 1 if magnitude < 99.95 else 0
    return f"{value:.{digits}f}"
