"""The colours of jobs, the same in figures, on pages and in the terminal."""

from __future__ import annotations

COLOURS = ("#3b6ea5", "#e0a030", "#5d9e5f", "#c0605a", "#8573b3", "#6fb3c4", "#b98a5e", "#d08fb8", "#8c9399", "#a7b94a")
LIMIT = "#a02020"  # the budget


def colour_of(index: int) -> str:
    """The colour of the job at this position; colours repeat if jobs are many."""
    return COLOURS[index % len(COLOURS)]
