"""The hollow devices seen from outside: bytes, peaks, processes, and calls with their costs."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path

from hollow.place import LIBRARY

_TEXT_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What one process has on one device."""

    pid: int
    device: int
    context_bytes: int
    bytes: int  # the context included
    busy_ns: int


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a call was made, and the time that it cost its callers."""

    calls: int = 0
    charged_ns: int = 0


class Board:
    """Reads a board as the devices' own byte count. It takes no place on it and has no context."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._library = ctypes.CDLL(str(LIBRARY))
        for name in ("hollow_used", "hollow_peak", "hollow_capacity"):
            getattr(self._library, name).restype = c_uint64
        self._library.hollow_open.restype = c_void_p
        self._board = c_void_p(self._library.hollow_open(c_char_p(str(path).encode())))

    def close(self) -> None:
        self._library.hollow_close(self._board)

    def used(self, device: int = 0) -> int:
        """Bytes of the device that are not free, contexts included."""
        return int(self._library.hollow_used(self._board, c_int(device)))

    def peak(self, device: int = 0) -> int:
        """The most that was ever used, or since `reset_peak`."""
        return int(self._library.hollow_peak(self._board, c_int(device)))

    def reset_peak(self, device: int = 0) -> None:
        self._library.hollow_reset_peak(self._board, c_int(device))

    def capacity(self, device: int = 0) -> int:
        return int(self._library.hollow_capacity(self._board, c_int(device)))

    def processes(self) -> list[ProcessUse]:
        out = ctypes.create_string_buffer(_TEXT_BYTES)
        self._library.hollow_processes(self._board, out, c_size_t(_TEXT_BYTES))
        return [ProcessUse(*map(int, line.split())) for line in out.value.decode().splitlines()]

    def calls(self, pid: int = 0) -> dict[str, Tally]:
        """Tallies by call: of one process, or of all that were ever here."""
        out = ctypes.create_string_buffer(_TEXT_BYTES)
        self._library.hollow_calls(self._board, c_int(pid), out, c_size_t(_TEXT_BYTES))
        lines = (line.split() for line in out.value.decode().splitlines())
        return {name: Tally(int(calls), int(charged)) for name, calls, charged in lines}
