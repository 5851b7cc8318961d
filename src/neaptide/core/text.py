"""Text that goes to a terminal: complaints, and names that strangers may have chosen."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

_MOMENT_SECONDS = 0.5


def printable(text: str) -> str:
    """The text on one line, with every character that a terminal would obey written as an escape."""
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def complain(text: str) -> None:
    """Print one line to stderr, if that is possible: a job must not fail because its stderr takes nothing."""
    print_to_stderr(f"neaptide: {printable(text)}")


def complain_aside(text: str) -> None:
    """Complain, but wait a moment at most for a stderr that takes nothing: a full pipe, a paused terminal.

    For a job, which must not stand still because nobody reads. The line is written when somebody does.
    """
    writes = threading.Thread(target=complain, args=(text,), name="neaptide-complaint", daemon=True)
    with suppress(RuntimeError):  # no thread can be started, because the process ends or is not allowed another one
        writes.start()
        writes.join(_MOMENT_SECONDS)


def print_to_stderr(text: str) -> None:
    """Print a text as it is to stderr, if that is possible."""
    lines = f"{text}\n"
    with suppress(Exception):  # a full disk, a closed file, or whatever a program put in its place
        real = sys.__stderr__
        if real is not None and sys.stderr is real:
            # Not through Python's buffer: what cannot be written stays there, and Python then ends with exit code 120.
            real.flush()
            os.write(real.fileno(), lines.encode(errors="backslashreplace"))
        elif sys.stderr is not None:  # print takes None for stdout
            print(lines, end="", file=sys.stderr, flush=True)


def _escaped(letter: str) -> str:
    return " " if letter in "\n\r\t" else letter.encode("unicode_escape").decode()
