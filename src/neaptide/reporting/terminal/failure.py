"""Tracebacks of a user's code as if it had run alone, without the frames of Neaptide and `runpy`."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException, extract_tb

import neaptide
from neaptide.core.text import print_to_stderr

_OURS = str(Path(neaptide.__file__).parent)
_HIDDEN = (_OURS, runpy.__file__, "<frozen runpy>", "<frozen importlib")


def print_failure(error: BaseException, path: Path) -> None:
    """Print what the program at `path` raised, as Python itself would print it."""
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            print_to_stderr(str(error.code))
        return
    report = TracebackException.from_exception(error)
    _hide_frames(report)
    first = next((i for i, frame in enumerate(report.stack) if Path(frame.filename) == path), 0)
    report.stack = StackSummary.from_list(list(report.stack)[first:])
    print_to_stderr("".join(report.format()).removesuffix("\n"))


@contextmanager
def policy_failures(name: str) -> Iterator[None]:
    """Turn an error that a user's policy raises into the policy's own traceback and a ValueError of one line."""
    try:
        yield
    except Exception as error:
        frames = [frame for frame in extract_tb(error.__traceback__) if not _is_hidden(frame)]
        if not frames or frames[0].name != "decide":  # the error is not the policy's
            raise
        print_failure(error, Path(frames[0].filename))
        raise ValueError(f"policy {name} failed with {type(error).__name__}") from None


def _hide_frames(report: TracebackException) -> None:
    report.stack = StackSummary.from_list([frame for frame in report.stack if not _is_hidden(frame)])
    related = (report.__cause__, report.__context__, *(report.exceptions or ()))
    for other in related:
        if other is not None:
            _hide_frames(other)


def _is_hidden(frame: FrameSummary) -> bool:
    return frame.filename.startswith(_HIDDEN)
