"""Where commands print."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from neaptide.core.text import printable

_PIPED_WIDTH = 100


class _Stdout(Console):
    """Prints no character that a terminal would obey, whoever chose the names and texts: only rich's own codes."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text="\n".join(map(printable, segment.text.split("\n"))))

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1 here; `main` chooses the exit code


class _Dispensable(io.TextIOBase):
    """Standard output of a command that has more to do than to print: when nobody can read it, it goes nowhere."""

    def write(self, text: str) -> int:
        try:
            if sys.stdout is not None:  # it is None if the command was started without one
                sys.stdout.write(text)
        except OSError:
            discard_output()
        return len(text)

    def flush(self) -> None:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError:
            discard_output()

    def isatty(self) -> bool:
        return sys.stdout is not None and sys.stdout.isatty()

    def fileno(self) -> int:
        return 1

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8" if sys.stdout is None else sys.stdout.encoding


def stdout(dispensable: bool = False) -> Console:
    """Standard output, in colours on a terminal; elsewhere wide enough to keep a table's rows whole.

    If it is `dispensable`, a closed terminal, a closed pipe or a full disk is no error.
    """
    file = _Dispensable() if dispensable else None
    console = _Stdout(highlight=False, markup=False, emoji=False, file=file)  # type: ignore[arg-type]
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPED_WIDTH
    return console


def discard_output() -> None:
    """Have everything that is still printed go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
