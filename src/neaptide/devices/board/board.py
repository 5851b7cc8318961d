"""A board that this process looks at and controls; devices/native/board.h says what each call guarantees."""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from neaptide.devices.board import figures as fig
from neaptide.devices.board.library import load, structure_of

_Joined = TypeVar("_Joined")
_ATTEMPTS = 10
_STATES, _REQUESTS = tuple(fig.SlotState), tuple(fig.Request)  # cheaper than making one of a number


_SLOT_FIELDS = tuple(field.name for field in dataclasses.fields(fig.SlotFigures))


@dataclass(frozen=True, slots=True)
class Region:
    """Words on a board that belong to its device; devices/native/device_region.h."""

    device: str | None  # whose words they are; None: there are none, only the setting
    setting: int = 0  # what they are made with: the device's SMs


class BoardError(ValueError):
    """The board cannot be used, or a slot is not taken; one clear line."""


class BoardReplacedError(BoardError):
    """The board was removed or replaced while this process joined it."""


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
    def create(
        cls, path: Path, capacity_bytes: int, region: Region | None = None, *, chunk_bytes: int = fig.SMALL_CHUNK_BYTES
    ) -> Board:
        """Make a board and open it; BoardError when there is a file at this path already."""
        region = region or Region(None)
        name = region.device and region.device.encode()
        handle = load().neaptide_board_create(os.fsencode(path), capacity_bytes, name, region.setting, chunk_bytes)
        return cls(handle, path)

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

    @staticmethod
    def in_use(path: Path) -> bool:
        """Whether a process has a slot on the board in this file, even if the file cannot be opened as a board."""
        return int(load().neaptide_board_in_use(os.fsencode(path))) == 1

    @property
    def is_at_its_path(self) -> bool:
        """Whether the path still names this board's file."""
        return bool(self._library.neaptide_board_is_at_its_path(self.handle))

    @property
    def chunk_bytes(self) -> int:
        """Memory is leased in units of this."""
        return int(self._library.neaptide_board_chunk_bytes(self.handle))

    @property
    def descriptor(self) -> int:
        """The open file."""
        return int(self._library.neaptide_board_descriptor(self.handle))

    def daemon_silent(self, since_ns: int = 0) -> bool:
        """Whether there is a daemon and nothing was heard of it for seconds; devices/native/board.h."""
        return checked(self._library.neaptide_board_daemon_silent(self.handle, since_ns)) == 1

    def snapshot(self) -> fig.BoardFigures:
        """Everything at one moment."""
        totals: Any = self._totals
        count = self._library.neaptide_board_snapshot(self.handle, ctypes.byref(totals), self._slots)
        checked(count)
        return fig.BoardFigures(
            capacity_bytes=totals.capacity_bytes,
            used_bytes=totals.used_bytes,
            high_water_bytes=totals.high_water_bytes,
            over_bytes=totals.over_bytes,
            consistent=bool(totals.consistent),
            slots=tuple(_slot(self._slots[index]) for index in range(count)),
        )

    def kernels_done(self, slot: int) -> int:
        """Kernels of the slot's process that the device has passed."""
        return int(self._read(slot).done)

    def iterations_begun(self, slot: int) -> int:
        """Iterations that the slot's process has begun."""
        return int(self._read(slot).iteration)

    def _read(self, slot: int) -> Any:
        """The words of a slot; they change with the next read."""
        if self._library.neaptide_board_slot(self.handle, slot, self._slot_address) != 0:
            raise BoardError(last_error())
        return self._slot

    def progress(self, slot: int) -> fig.Progress:
        """One slot now; about a microsecond in C and a few in Python."""
        seen = self._read(slot)
        return fig.Progress(
            seen.iteration,
            seen.entered,
            seen.age,
            seen.launched,
            seen.done,
            seen.held_bytes,
            seen.over_bytes,
            seen.wanted_bytes,
            seen.rest_bytes,
            _STATES[seen.state],
            _REQUESTS[seen.request],
            seen.permit,
            bool(seen.taken),
            seen.pid,
            seen.waited_ns,
            seen.waits_since_ns,
            seen.stalled_ns,
        )

    def region_setting(self) -> int:
        """What the device's region was made with: for the software GPU, its SMs."""
        return int(self._library.neaptide_board_region_setting(self.handle))

    def read_counters(self) -> tuple[ctypes.Array[ctypes.c_uint64], ctypes.Array[ctypes.c_uint64]]:
        """Kernels done and bytes held of each slot, taken or not; they change with the next read_counters."""
        checked(self._library.neaptide_board_read_counters(self.handle, self._done, self._held))
        return self._done, self._held

    # --- controlling

    def reap(self) -> int:
        """Free what dead processes left; how many slots that were."""
        return checked(self._library.neaptide_board_reap(self.handle))

    def beat(self, now_ns: int, capacity_bytes: int) -> None:
        """Say that the daemon lives, so that its controls count, and write again what was changed of the board itself.

        `now_ns` is on the monotonic clock.
        """
        checked(self._library.neaptide_board_beat(self.handle, now_ns, capacity_bytes))

    def stop_beating(self) -> None:
        """The daemon ends, or has no jobs: what it has set stays."""
        checked(self._library.neaptide_board_stop_beating(self.handle))

    def set_capacity(self, capacity_bytes: int) -> None:
        """What all may hold together; may be below what they do."""
        checked(self._library.neaptide_board_set_capacity(self.handle, capacity_bytes))

    def reset_high_water(self) -> None:
        checked(self._library.neaptide_board_reset_high_water(self.handle))

    def set_permit(self, slot: int, iterations: int) -> None:
        """Iterations that may have started so far, or PERMIT_ALL."""
        checked(self._library.neaptide_board_set_permit(self.handle, slot, iterations))

    def set_gate(self, slot: int, until_ns: int, holds_light: bool = False) -> None:
        """Open the gate until a time on the device's clock, when it closes by itself; 0: close it, ALWAYS: open it.

        Heavy kernels wait before a closed gate; if `holds_light`, all do.
        """
        checked(self._library.neaptide_board_set_gate(self.handle, slot, until_ns, holds_light))

    def set_deadline_class(self, slot: int, deadline: bool) -> None:
        """Put the process into the deadline class, or back among the others."""
        checked(self._library.neaptide_board_set_deadline_class(self.handle, slot, deadline))

    def set_share(self, slot: int, share: float | None) -> None:
        """The share of the device's SM time that the process may use; None: all."""
        millionths = fig.WHOLE_SHARE if share is None else round(share * fig.WHOLE_SHARE)
        checked(self._library.neaptide_board_set_share(self.handle, slot, millionths))

    def lift_controls(self, slot: int, *, restore: bool = False) -> None:
        """Open permit and gate, and lift cap, ceiling, limit, class, share and lane: nobody controls the slot any more.

        With `restore` the process is also asked to bring its memory back.
        """
        checked(self._library.neaptide_board_lift_controls(self.handle, slot, restore))

    def set_inflight_cap(self, slot: int, kernels: int | None) -> None:
        cap = fig.UNBOUNDED if kernels is None else kernels
        checked(self._library.neaptide_board_set_inflight_cap(self.handle, slot, cap))

    def set_ceiling(self, slot: int, ceiling_bytes: int | None) -> None:
        ceiling = fig.NO_CEILING if ceiling_bytes is None else ceiling_bytes
        checked(self._library.neaptide_board_set_ceiling(self.handle, slot, ceiling))

    def set_limit(self, slot: int, limit_bytes: int | None) -> None:
        """The most that the slot's process leases; what it needs beyond goes over the link. None: no limit."""
        limit = fig.NO_CEILING if limit_bytes is None else limit_bytes
        checked(self._library.neaptide_board_set_limit(self.handle, slot, limit))

    def set_oversubscribed(self, oversubscribed: bool) -> None:
        """Whether processes take over the link what the capacity does not grant, instead of waiting for it."""
        checked(self._library.neaptide_board_set_oversubscribed(self.handle, oversubscribed))

    def set_lane(self, slot: int, lane: int | None) -> None:
        """The lane whose memory the slot's iterations use; core/rules/memory_grant.h says what a lane is."""
        checked(self._library.neaptide_board_set_lane(self.handle, slot, fig.NO_LANE if lane is None else lane))

    def set_lane_bytes(self, lane: int, size_bytes: int) -> None:
        """Set bytes aside for the iterations in a lane; 0 closes it."""
        checked(self._library.neaptide_board_set_lane_bytes(self.handle, lane, size_bytes))

    def forget_expected_leases(self, slot: int) -> None:
        """Keep no more bytes for the slot's iteration: its process makes no progress."""
        checked(self._library.neaptide_board_forget_expected_leases(self.handle, slot))

    def set_request(self, slot: int, request: fig.Request) -> None:
        checked(self._library.neaptide_board_set_request(self.handle, slot, request))


def checked(result: int) -> int:
    """The result of a function of the native library; BoardError with its reason if it failed."""
    if result < 0:
        raise BoardError(last_error())
    return result


def joining_error(board: Board) -> BoardError:
    """Why this thread could not join the board just now."""
    return BoardError(last_error()) if board.is_at_its_path else BoardReplacedError(last_error())


def join(attempt: Callable[[], _Joined]) -> _Joined:
    """What an attempt to open and join a board makes; it is repeated when the board was replaced meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(BoardReplacedError):
            return attempt()
    return attempt()


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
            "lane": None if seen.lane == fig.NO_LANE else seen.lane,
            "deadline_class": bool(seen.deadline_class),
        }
    )
