"""The launch layer of one job without torch, driven by a script: no call waits, and the caller is the clock.

It is the real layer (devices/native/launch) over the real board and arena; only the device is scripted: the caller says
what time it is and how many of the launched kernels are done. Several ports on one board can live in one thread.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from neaptide.devices.board.board import Board, checked, joining_error
from neaptide.devices.board.figures import IterationFacts
from neaptide.devices.board.library import load
from neaptide.native_library import structure


class Entry(IntEnum):
    """What an attempt to launch came to; devices/native/launch/gates.h."""

    ENTERED = 0
    HELD = 1  # launches are held, or the job's memory is in host memory
    PERMIT = 2  # the iteration that this launch begins has no permit yet
    REQUEST = 3  # a request of the daemon must be served first
    HEAVY = 4  # the board holds heavy kernels of this job
    IN_FLIGHT_CAP = 5  # as many kernels are in flight as may be
    REFUSED = 6  # no launch will ever go on


class Allocation(IntEnum):
    """What an attempt to allocate came to; devices/native/arena.h."""

    GRANTED = 0
    FULL = 1  # the free bytes of the device are too few
    RESERVED = 2  # they are enough, but older iterations wait for them or are expected to need them
    CEILING = 3  # the job may not hold so much
    OVER_CAPACITY = 4  # even a device of its own would be too small
    EVICTED = 5  # the job's memory is in host memory


class Service(IntEnum):
    """What serving a request came to; devices/native/launch/request_service.h."""

    NOTHING = 0  # there is no request
    BUSY = 1  # work in flight has to end first (evict, suspend), or there is no memory yet (restore, resume)
    EVICTED = 2
    RESTORED = 3
    FAILED = 4  # the memory could not be moved to host memory


@dataclass(frozen=True, slots=True)
class PortFigures:
    """A port at one moment. `needed` bytes are in live blocks, `held` bytes are leased, `over` bytes over the link."""

    needed_bytes: int
    needed_peak_bytes: int
    held_bytes: int
    held_peak_bytes: int
    over_bytes: int
    over_peak_bytes: int
    spare_peak_bytes: int  # most free bytes in chunks in use when a lease was taken all the same
    evicted_bytes: int  # in host memory now
    in_flight: int  # kernels launched and not passed
    launched: int  # kernels ever launched
    in_flight_cap: int
    evicted: int  # 1 while its memory is in host memory
    iterations_begun: int
    iteration_began_ns: int
    iterations_ended: int  # whose end the device has passed and reported


class Port:
    """The launch layer of one job on a board."""

    def __init__(self, board: Board, job: str) -> None:
        self._library = load()
        self._handle = self._library.neaptide_port_join(board.handle, job.encode())
        if not self._handle:
            raise joining_error(board)
        self.slot = int(self._library.neaptide_port_slot(self._handle))

    def leave(self) -> None:
        """Give everything back and leave the board."""
        if self._handle:
            self._library.neaptide_port_leave(self._handle)
            self._handle = None

    # --- the script: time and the device's progress

    def set_now(self, time_ns: int) -> None:
        """Set the device's clock."""
        self._library.neaptide_port_set_now(self._handle, time_ns)

    def set_host_memory(self, there: bool) -> None:
        """Set whether the host has memory for this job's evicted chunks; it has at first."""
        self._library.neaptide_port_set_host_memory(self._handle, there)

    def passed(self, kernels: int = 1) -> None:
        """The device has done the oldest of the launched kernels: memory returns and reports go out."""
        checked(self._library.neaptide_port_passed(self._handle, kernels))

    # --- launching

    def try_enter(self, *, heavy: bool = False) -> Entry:
        """Begin a launch, or say what it has to wait for. `exit` must follow when it entered."""
        return Entry(checked(self._library.neaptide_port_try_enter(self._handle, heavy)))

    def exit(self) -> None:
        """End the launch."""
        self._library.neaptide_port_exit(self._handle)

    def launched(self, kernels: int = 1) -> None:
        """Kernels were launched."""
        self._library.neaptide_port_launched(self._handle, kernels)

    def may_run(self, *, heavy: bool, lasts_ns: int = 0) -> bool:
        """Whether a launched kernel may run now, if it takes `lasts_ns`. Changes nothing."""
        return bool(self._library.neaptide_port_may_run(self._handle, heavy, lasts_ns))

    def makes_way(self) -> bool:
        """Whether a deadline job has kernels in flight and this job is none. Changes nothing."""
        return bool(self._library.neaptide_port_makes_way(self._handle))

    def share(self) -> float:
        """The share of the device's SM time that the job may use. Changes nothing."""
        return float(self._library.neaptide_port_share(self._handle))

    def over_the_link_ns(self, moved_bytes: int, link_bandwidth: float) -> float:
        """How much longer a kernel takes that moves so many bytes (core/rules/over_the_link.h). Changes nothing."""
        return float(self._library.neaptide_port_over_the_link_ns(self._handle, moved_bytes, link_bandwidth))

    def hold(self) -> None:
        """Make every launch wait."""
        self._library.neaptide_port_hold(self._handle)

    def release(self) -> None:
        """Let launches go on."""
        self._library.neaptide_port_release(self._handle)

    def refuse(self, reason: str) -> None:
        """Make every launch fail from now on."""
        self._library.neaptide_port_refuse(self._handle, reason.encode())

    # --- memory

    def allocate(self, block_bytes: int, *, persistent: bool = False) -> tuple[Allocation, int]:
        """Try to allocate a block: its address when granted, else the bytes of leases that it lacks.

        A job that finds no memory keeps its place in line until the next attempt, or `withdraw`.
        """
        value = ctypes.c_uint64()
        made = self._library.neaptide_port_allocate(self._handle, block_bytes, persistent, ctypes.byref(value))
        return Allocation(checked(made)), value.value

    def free(self, address: int) -> None:
        """Free a block; its chunks return when the device has passed what was launched so far."""
        checked(self._library.neaptide_port_free(self._handle, address))

    def withdraw(self) -> None:
        """Stop waiting for the allocation that was not granted."""
        self._library.neaptide_port_withdraw(self._handle)

    def serve(self) -> Service:
        """Serve a request of the daemon as far as it goes now: evict or suspend at once, restore if memory is free."""
        return Service(checked(self._library.neaptide_port_serve(self._handle)))

    # --- iterations

    def arm_iteration(self) -> None:
        """Make the next launch begin an iteration on the board and wait for its permit."""
        self._library.neaptide_port_arm_iteration(self._handle)

    def disarm_iteration(self) -> bool:
        """The next launch begins no iteration after all; False, changing nothing, when one has come."""
        return bool(self._library.neaptide_port_disarm_iteration(self._handle))

    def end_iteration(self) -> IterationFacts | None:
        """End the iteration that was launched; None, changing nothing, when it launched nothing."""
        native = _iteration_type()()
        if not self._library.neaptide_port_end_iteration(self._handle, ctypes.byref(native)):
            return None
        return IterationFacts(**_values(native))

    def take_recent(self) -> tuple[int, int]:
        """Most bytes needed and bytes allocated since the last call or iteration; starts both again."""
        peak, allocated = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.neaptide_port_take_recent(self._handle, ctypes.byref(peak), ctypes.byref(allocated))
        return peak.value, allocated.value

    def expect(self, lease_levels: Sequence[int]) -> None:
        """Have the board keep room for iterations: the most leased bytes from each kernel on. Empty: no forecast."""
        levels = (ctypes.c_uint64 * len(lease_levels))(*lease_levels)
        self._library.neaptide_port_expect(self._handle, levels, len(lease_levels))

    # --- reports

    def connect_reports(self, descriptor: int, known_iterations: int) -> None:
        """Send reports to this socket, and own it; its other side knows of that many ended iterations."""
        self._library.neaptide_port_connect(self._handle, descriptor, known_iterations)

    def disconnect_reports(self) -> None:
        """Send no more reports."""
        self._library.neaptide_port_disconnect(self._handle)

    def forget_reports(self) -> None:
        """In a forked child: close the socket here, and send nothing."""
        self._library.neaptide_port_forget(self._handle)

    def report(self, frame: bytes, *, large: bool = False) -> bool:
        """Send a frame as soon as the socket has room; False when none is connected. There may be many large ones."""
        return bool(self._library.neaptide_port_report(self._handle, frame, len(frame), large))

    def report_after(self, frame: bytes) -> None:
        """Send a frame when the device has passed what was launched so far."""
        self._library.neaptide_port_report_after(self._handle, frame, len(frame))

    def report_progress(self, frame: bytes) -> None:
        """Send a frame that tells how far the iteration has come when the device has passed what was launched so far.

        It is left out while the process runs ahead.
        """
        self._library.neaptide_port_report_progress(self._handle, frame, len(frame))

    def report_iteration(self, frame: bytes, duration_offset: int, index: int, began_ns: int) -> None:
        """Send the frame of an iteration's end when the device has passed it, with its duration filled in.

        The frame must hold 2**62 in eight bytes, the highest first, at `duration_offset`; BoardError otherwise.
        """
        checked(
            self._library.neaptide_port_report_iteration(
                self._handle, frame, len(frame), duration_offset, index, began_ns
            )
        )

    # --- looking

    def figures(self) -> PortFigures:
        """The port at this moment. Changes nothing."""
        native = _figures_type()()
        self._library.neaptide_port_figures(self._handle, ctypes.byref(native))
        return PortFigures(**_values(native))

    def reset_peaks(self) -> None:
        """Start the peaks again from what is needed and held now."""
        self._library.neaptide_port_reset_peaks(self._handle)

    def check(self) -> None:
        """Verify every invariant of the job's memory. Changes nothing."""
        checked(self._library.neaptide_port_check(self._handle))


@cache
def _iteration_type() -> type[ctypes.Structure]:
    return structure("IterationFacts", load().neaptide_port_layout(b"iteration"))


@cache
def _figures_type() -> type[ctypes.Structure]:
    return structure("PortFigures", load().neaptide_port_layout(b"figures"))


def _values(native: ctypes.Structure) -> dict[str, int]:
    return {name: getattr(native, name) for name, *_ in native._fields_}
