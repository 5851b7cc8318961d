"""Traces on disk."""

from __future__ import annotations

import os
from pathlib import Path

from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import TraceFormatError, decode, encode


def save_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace. Another reader of the path sees the old file or the whole new one, never a part."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(encode(trace))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_trace(path: str | Path) -> Trace:
    """Read a trace; TraceFormatError with the path in one line if the file holds none."""
    try:
        return decode(Path(path).read_bytes())
    except TraceFormatError as error:
        raise TraceFormatError(f"{path}: {error}") from None
