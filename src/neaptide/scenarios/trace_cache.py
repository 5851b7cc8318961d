"""A cache of estimated traces. An estimate takes seconds and depends only on the code and the device."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import msgspec

import neaptide
from neaptide.capture.files import load_trace, save_trace
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.native_library import cache_folder

_DECIDING = ("models/**/*.py", "capture/**/*.py", "core/traces/*.py", "core/device.py")  # code behind an estimate


class TraceKey(msgspec.Struct, frozen=True):
    """A model as a job uses it. Batch None is the model's default."""

    model: str
    batch: int | None
    scale: str
    inference: bool


class TraceCache:
    """Traces in the user's cache directory. A file's name changes with everything that the estimate depends on."""

    def __init__(self, device: DeviceSpec) -> None:
        parts = hashlib.sha256(version("torch").encode())
        parts.update(repr(device).encode())
        home = Path(neaptide.__file__).parent
        for path in sorted(path for pattern in _DECIDING for path in home.glob(pattern)):
            parts.update(path.name.encode() + path.read_bytes())
        self._basis = parts.digest()
        self._directory = cache_folder() / "traces"

    def _path(self, key: TraceKey) -> Path:
        checksum = hashlib.sha256(self._basis + msgspec.json.encode(key)).hexdigest()[:16]
        name = "".join(letter for letter in key.model if letter.isalnum() or letter in "-_")
        return self._directory / f"{name}-{checksum}.trace"

    def get(self, key: TraceKey) -> Trace | None:
        """The cached trace; None if there is none that can be read. Changes nothing."""
        try:
            return load_trace(self._path(key))
        except (OSError, ValueError):
            return None

    def put(self, key: TraceKey, trace: Trace) -> None:
        """Cache a trace, if the directory can be written."""
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            save_trace(trace, self._path(key))
