"""Estimated traces kept between commands: an estimate takes seconds, and only the code and the device decide it."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import msgspec

import neaptide
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import TraceFormatError, decode
from neaptide.native_library import cache_folder

_DECIDING = ("models/*.py", "capture/*.py", "core/traces/columns.py", "core/device.py", "core/trace*.py")


class TraceKey(msgspec.Struct, frozen=True):
    """A model of the zoo as a job uses it; None is the model's own batch."""

    model: str
    batch: int | None
    scale: str
    inference: bool


def read_trace(path: Path) -> Trace:
    """Read a trace as `capture.files` does, but without torch, which a scenario of saved traces never needs."""
    try:
        return decode(path.read_bytes())
    except TraceFormatError as error:
        raise ValueError(f"{path}: {error}") from None


class TraceCache:
    """Traces in the user's cache directory, under a name that changes with all that an estimate depends on."""

    def __init__(self, device: DeviceSpec) -> None:
        parts = hashlib.sha256(version("torch").encode())
        parts.update(repr(device).encode())
        home = Path(neaptide.__file__).parent
        for path in sorted(path for pattern in _DECIDING for path in home.glob(pattern)):
            parts.update(path.name.encode() + path.read_bytes())
        self._basis = parts.digest()
        self._directory = cache_folder() / "traces"

    def _path(self, wanted: TraceKey) -> Path:
        mark = hashlib.sha256(self._basis + msgspec.json.encode(wanted)).hexdigest()[:16]
        name = "".join(letter for letter in wanted.model if letter.isalnum() or letter in "-_")
        return self._directory / f"{name}-{mark}.trace"

    def get(self, wanted: TraceKey) -> Trace | None:
        """A trace that was kept; None if there is none, or none that can be read. Changes nothing."""
        try:
            return read_trace(self._path(wanted))
        except (OSError, ValueError):
            return None

    def put(self, wanted: TraceKey, trace: Trace) -> None:
        """Keep a trace if the directory can be written."""
        from neaptide.capture.files import save_trace

        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            save_trace(trace, self._path(wanted))
