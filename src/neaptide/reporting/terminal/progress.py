"""A progress bar on stderr for work that takes long, and nothing for work that does not.

If stderr is no terminal, a line now and then takes the bar's place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from neaptide.core.text import complain, printable

OnProgress = Callable[[int, int], None]
_PATIENCE_SECONDS = 1.5
_LINE_SECONDS = 10.0


@contextmanager
def progress(what: str) -> Iterator[OnProgress]:
    """Show a bar labelled `what` after a while, or lines. The callback takes done and total."""
    console = Console(stderr=True)
    if not console.is_terminal:
        with progress_lines(what) as show:
            yield show
        return
    # Output of the work itself goes to stdout and stderr unchanged.
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task(printable(what), total=None)
    ended = Event()

    def show_when_due() -> None:
        if not ended.wait(_PATIENCE_SECONDS):
            bar.start()

    thread = Thread(target=show_when_due, daemon=True)
    thread.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        ended.set()
        thread.join()
        bar.stop()


@contextmanager
def progress_lines(what: str) -> Iterator[OnProgress]:
    """Print a line every ten seconds, unless stderr is a terminal. The callback takes done and total."""
    began, ended = monotonic(), Event()
    done_of_total: list[tuple[int, int]] = []

    def say_when_due() -> None:
        while not ended.wait(_LINE_SECONDS):
            done = "{} of {}, ".format(*done_of_total[-1]) if done_of_total else ""
            complain(f"{what}: {done}{monotonic() - began:.0f} s so far")

    def note(done: int, total: int) -> None:
        done_of_total[:] = [(done, total)]

    thread = Thread(target=say_when_due, daemon=True)
    if not Console(stderr=True).is_terminal:
        thread.start()
    try:
        yield note
    finally:
        ended.set()


@contextmanager
def script_progress(name: str) -> Iterator[OnProgress]:
    """Progress of a script. If the script may write to the terminal, print a line now and then instead of a bar."""
    if not sys.stdout.isatty():
        with progress(name) as show:
            yield show
        return
    last = monotonic()

    def say(done: int, total: int) -> None:
        nonlocal last
        if sys.stderr.isatty() and monotonic() - last > _PATIENCE_SECONDS:
            last = monotonic()
            complain(f"{done} of {total} iterations of {name} seen")

    yield say
