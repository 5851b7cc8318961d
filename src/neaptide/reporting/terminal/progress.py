"""A progress bar on stderr for work that takes long, and nothing for work that does not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

OnProgress = Callable[[int, int], None]
_PATIENCE_SECONDS = 1.5


@contextmanager
def progress(what: str) -> Iterator[OnProgress]:
    """Show a bar labelled `what` after a while, if stderr is a terminal. The callback takes done and total."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *_: None
        return
    # Output of the work itself goes to stdout and stderr unchanged.
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task(what, total=None)
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
            print(f"neaptide: {done} of {total} iterations of {name} seen", file=sys.stderr)

    yield say
