"""A board that this process looks at and controls; devices/native/board.h says what each call guarantees."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neaptide.devices.board import figures as fig
from neaptide.devices.board.library import load, structure_of

_STATES, _REQUESTS = tuple(fig.SlotState), tuple(fig.Request)  # cheaper than making one of a number


_SLOT_FIELDS = tuple(field.name for field in dataclasses.fields(fig.SlotFigures))


@dataclass(frozen=True, slots=True)
class Region:
    """Words on a board that belong to its device; devices/native/device_region.h."""

    device: str | None  # whose words they are; None: there are none, only the setting
    setting: int = 0  # what they are made with: the device's SMs


class BoardError(ValueError):
    """The board cannot be used, or a slot is not taken; one clear line."""


class Board:
    """A mapped board file. A forked child must open its own."""

    def __init__(self, handle: int | None, path: Path) -> None:
        self._library = load()
        if not handle:
            raise BoardError(last_error())
        self.handle: int | None = handle
        self.path = path
        self._totals, self._slots = structure_of("board")(), (structure_of("slot") * fig.SLOTS)()
        self._slot: Any = structure_of("slot")()
        self._slot_address = ctypes.addressof(self._slot)
        self._done, self._held = (ctypes.c_uint64 * fig.SLOTS)(), (ctypes.c_uint64 * fig.SLOTS)()

    @classmethod
    def create(cls, path: Path, capacity_bytes: int, region: Region | None = None) -> Board:
        """Open the board at this path; make it when there is none. One that exists keeps what it has."""
        region = region or Region(None)
        name = region.device and region.device.encode()
        return cls(load().neaptide_board_create(os.fsencode(path), capacity_bytes, name, region.setting), path)

    @classmethod
    def open(cls, path: Path) -> Board:
        """Open a board that exists."""
        return cls(load().neaptide_board_open(os.fsencode(path)), path)

    def close(self) -> None:
        """Unmap it; members that were joined through it keep it mapped until they leave."""
        if self.handle is not None:
            self._library.neaptide_board_close(self.handle)
            self.handle = None

    # --- looking: changes nothing

    def snapshot(self) -> fig.BoardFigures:
        """Everything at one moment."""
        totals: Any = self._totals
        count = self._library.neaptide_board_snapshot(self.handle, ctypes.byref(totals), self._slots)
        self._check(count)
        return fig.BoardFigures(
            capacity_bytes=totals.capacity_bytes,
            used_bytes=totals.used_bytes,
            high_water_bytes=totals.high_water_bytes,
            consistent=bool(totals.consistent),
            slots=tuple(_slot(self._slots[index]) for index in range(count)),
        )

    def progress(self, slot: int) -> fig.Progress:
        """One slot now; about a microsecond in C and a few in Python."""
        if self._library.neaptide_board_slot(self.handle, slot, self._slot_address) != 0:
            raise BoardError(last_error())
        seen = self._slot
        return fig.Progress(
            seen.iteration,
            seen.age,
            seen.launched,
            seen.done,
            seen.held_bytes,
            seen.wanted_bytes,
            _STATES[seen.state],
            _REQUESTS[seen.request],
            seen.permit,
            bool(seen.taken),
            seen.pid,
        )

    def region_setting(self) -> int:
        """What the device's region was made with: for the software GPU, its SMs."""
        return int(self._library.neaptide_board_region_setting(self.handle))

    def read_counters(self) -> tuple[ctypes.Array[ctypes.c_uint64], ctypes.Array[ctypes.c_uint64]]:
        """Kernels done and bytes held of each slot, taken or not; they change with the next read_counters."""
        self._check(self._library.neaptide_board_read_counters(self.handle, self._done, self._held))
        return self._done, self._held

    # --- controlling

    def reap(self) -> int:
        """Free what dead processes left; how many slots that were."""
        return self._check(self._library.neaptide_board_reap(self.handle))

    def set_capacity(self, capacity_bytes: int) -> None:
        """What all may hold together; may be below what they do."""
        self._check(self._library.neaptide_board_set_capacity(self.handle, capacity_bytes))

    def reset_high_water(self) -> None:
        self._check(self._library.neaptide_board_reset_high_water(self.handle))

    def set_permit(self, slot: int, iterations: int) -> None:
        """Iterations that may have started so far, or PERMIT_ALL."""
        self._check(self._library.neaptide_board_set_permit(self.handle, slot, iterations))

    def set_heavy_open(self, slot: int, heavy_open: bool) -> None:
        self._check(self._library.neaptide_board_set_heavy_open(self.handle, slot, heavy_open))

    def set_inflight_cap(self, slot: int, kernels: int | None) -> None:
        cap = fig.UNBOUNDED if kernels is None else kernels
        self._check(self._library.neaptide_board_set_inflight_cap(self.handle, slot, cap))

    def set_ceiling(self, slot: int, ceiling_bytes: int | None) -> None:
        ceiling = fig.NO_CEILING if ceiling_bytes is None else ceiling_bytes
        self._check(self._library.neaptide_board_set_ceiling(self.handle, slot, ceiling))

    def forget_expected_leases(self, slot: int) -> None:
        """Keep no more bytes for the slot's iteration: its process makes no progress."""
        self._check(self._library.neaptide_board_forget_expected_leases(self.handle, slot))

    def set_request(self, slot: int, request: fig.Request) -> None:
        self._check(self._library.neaptide_board_set_request(self.handle, slot, request))

    def _check(self, result: int) -> int:
        if result < 0:
            raise BoardError(last_error())
        return result


def last_error() -> str:
    """Why the last call of this thread failed."""
    said: bytes = load().neaptide_error()
    return said.decode(errors="replace")


def take_short_turns() -> None:
    """Have this thread woken sooner on a busy machine, for shorter turns; devices/native/process.h says how."""
    load().neaptide_take_short_turns()


def process_state(pid: int, start_time: int) -> fig.ProcessState:
    """Whether a process that is on a board runs, is stopped, or is gone."""
    return fig.ProcessState(load().neaptide_process_state(pid, start_time))


def _slot(seen: Any) -> fig.SlotFigures:
    values = {name: getattr(seen, name) for name in _SLOT_FIELDS}
    return fig.SlotFigures(
        **values
        | {
            "job": seen.job.decode(errors="replace"),
            "state": _STATES[seen.state],
            "request": _REQUESTS[seen.request],
            "heavy_open": bool(seen.heavy_open),
        }
    )
