"""How tables, lines and pages write numbers."""

from __future__ import annotations


def format_share(share: float) -> str:
    """A percentage that is 100% only when nothing is missing."""
    return "100%" if share == 1 else f"{min(share, 0.9999):.2%}" if share > 0.99 else f"{share:.1%}"


def format_times(ratio: float) -> str:
    """A ratio, such as 1.25x."""
    return f"{ratio:.2f}x"


def format_rate(per_second: float) -> str:
    """Iterations per second, with three digits."""
    return f"{per_second:.3g}" if per_second < 99.95 else f"{per_second:,.0f}"


def format_duration(seconds: float) -> str:
    """A time that is shown while it grows; its width changes rarely, so that the display does not jump."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"
