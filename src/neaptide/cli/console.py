"""Where commands print."""

from __future__ import annotations

import os

from rich.console import Console

_PIPED_WIDTH = 100


class _Stdout(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1 here; `main` chooses the exit code


def stdout() -> Console:
    """Standard output, in colours on a terminal; elsewhere wide enough to keep a table's rows whole."""
    console = _Stdout(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH
    return console
