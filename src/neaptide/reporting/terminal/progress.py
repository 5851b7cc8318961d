"""A progress bar on stderr for what takes long, and nothing for what does not."""

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
    """Show `what` with a bar once it has lasted, if stderr is a terminal; give it the callback's numbers."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *_: None
        return
    # What runs keeps its own stdout and stderr: it is not ours to rewrite.
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
    """The same for a script, which may write to the terminal itself: then whole lines, now and then, and no bar."""
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
