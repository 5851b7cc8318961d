"""What SIGINT, SIGTERM and SIGHUP do to a run.

Before the jobs run and after they have ended, they raise KeyboardInterrupt. While jobs run, they are noted, and the
loop that watches the jobs decides. A SIGHUP that the process was started to ignore, as by nohup, stays ignored.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handler = Callable[[int, FrameType | None], None]


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, the three signals raise KeyboardInterrupt, SIGINT even where a shell ignores it for background jobs."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextmanager
def noted_interrupts() -> Iterator[deque[signal.Signals]]:
    """Inside, the three signals are appended to the queue and do nothing else."""
    noted: deque[signal.Signals] = deque()
    with _handled_by(lambda number, _: noted.append(signal.Signals(number))):
        yield noted


@contextmanager
def _handled_by(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # Python allows handlers on the main thread alone
        yield
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
