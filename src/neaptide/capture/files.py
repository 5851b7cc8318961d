"""Traces on disk."""

from __future__ import annotations

import os
from pathlib import Path

from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import TraceFormatError, decode, encode


def save(trace: Trace, path: Path) -> None:
    """Write a trace; whoever reads the path sees the old file or the whole new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(encode(trace))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: Path) -> Trace:
    """Read a trace; TraceFormatError with the path and one clear line if it holds none."""
    try:
        return decode(path.read_bytes())
    except TraceFormatError as error:
        raise TraceFormatError(f"{path}: {error}") from None
