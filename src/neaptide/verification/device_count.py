"""The device's own count of its bytes, which knows nothing of neaptide, looked at again and again."""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from neaptide.devices import chosen_device, default_kind

_LOOK_SECONDS = 0.005
_PATIENCE_SECONDS = 20.0  # with a driver that takes a context away


def used_bytes() -> int | None:
    """Bytes of the chosen device that are in use; None where nobody but neaptide counts."""
    return default_kind().used_bytes(chosen_device().index)


def wait_for_rest(bytes_at_rest: int | None) -> None:
    """Wait until the device has no more in use than it had at rest, or for as long as a driver may take."""
    until = monotonic() + _PATIENCE_SECONDS
    while bytes_at_rest is not None and (used_bytes() or 0) > bytes_at_rest and monotonic() < until:
        sleep(_LOOK_SECONDS)


class DeviceCount:
    """Inside, reads the device's count again and again. `most_bytes` is the most in use beyond the bytes at rest."""

    def __init__(self, bytes_at_rest: int | None) -> None:
        self._rest = bytes_at_rest
        self.most_bytes: int | None = None
        self.looks = 0
        self._ended = Event()
        self._thread = Thread(target=self._look, daemon=True, name="neaptide-device-count")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while self._rest is not None and not self._ended.wait(_LOOK_SECONDS):
            seen = used_bytes()
            if seen is None:
                return
            self.looks += 1
            self.most_bytes = max(self.most_bytes or 0, seen - self._rest)
