"""The fake device inside a job.

A program asks for memory and launches kernels with `try_allocate` and `try_launch`, which never wait: when the device
cannot go on they say so, and the program tries again after `advance`. In virtual time a test calls `advance` whenever
the clock has moved; in real time the program calls it while it waits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from neaptide.devices import Board, IterationFacts, KernelRecord, MemoryFigures
from neaptide.devices.board.port import Allocation, Entry, Port, Service

from .kind import KIND
from .stream import Stream

_DURATION_BYTES = 8
_SMALL_BYTES = 1 << 14


class FakeAgent:
    """A DeviceAgent over the common launch layer (`devices.board.port`), with one stream."""

    device_type = "fake"
    spec_name = "soft"
    supplies = KIND.supplies

    def __init__(self, board: Board, job: str, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._board = board
        self._now_ns = now_ns
        self._port = Port(board, job)
        self._lock = threading.RLock()  # the program and the connection call from two threads
        self._held = threading.Event()  # a launch waits for `release_launches`
        self._refusal = ""
        self._closed = False
        self.evictions = 0
        """How often the job's memory was moved to host memory."""
        self.slot = self._port.slot
        self.sms = board.region_setting()
        self._stream = Stream(self._port, now_ns, self.sms)

    # --- what a program does

    def try_allocate(self, block_bytes: int, *, persistent: bool = False) -> int | None:
        """A block's address; None when the job has to wait. MemoryError when waiting would not help."""
        with self._lock:
            entry = self._try_enter()
            # As on other devices, an op takes its memory before it waits for room in the queue.
            if entry not in (Entry.ENTERED, Entry.IN_FLIGHT_CAP):
                return None
            made, value = self._port.allocate(block_bytes, persistent=persistent)
            if entry is Entry.ENTERED:
                self._port.exit()
            if made is Allocation.GRANTED:
                return value
            if made is Allocation.OVER_CAPACITY:
                self._port.withdraw()
                raise MemoryError(f"a block of {block_bytes} bytes is more than this job may hold")
            return None  # at a ceiling, too: the daemon may raise it

    def free(self, address: int) -> None:
        """Free a block; its memory returns when the device has passed what was launched."""
        with self._lock:
            self._port.free(address)

    def try_launch(self, seconds: float, width: int = 1, name: str = "kernel", *, moved_bytes: int = 0) -> bool:
        """Launch a kernel that takes this time on `width` SMs; False when the job has to wait.

        If bytes of the job are over the link, it takes longer by what it moves.
        """
        with self._lock:
            if self._try_enter() is not Entry.ENTERED:
                return False
            self._stream.launch(name, seconds, width, moved_bytes)
            self._port.exit()
            return True

    def set_host_memory(self, there: bool) -> None:
        """Set whether the host has memory for this job's evicted chunks; it has at first."""
        with self._lock:
            self._port.set_host_memory(there)

    @property
    def idle(self) -> bool:
        """Whether everything that was launched has run."""
        return self._stream.idle

    def advance(self) -> bool:
        """Bring the device up to the present and serve the daemon's requests; whether anything happened."""
        with self._lock:
            self._port.set_now(self._now_ns())
            ended = self._stream.advance()
            served = self._port.serve()
            self.evictions += served is Service.EVICTED
            return ended > 0 or served in (Service.EVICTED, Service.RESTORED)

    def next_ns(self) -> int | None:
        """When something happens by itself; None when the device waits for somebody."""
        with self._lock:
            return self._stream.next_end_ns()

    def _try_enter(self) -> Entry:
        self._port.set_now(self._now_ns())
        entry = self._port.try_enter()
        if entry is Entry.REFUSED:
            raise MemoryError(self._refusal)
        if entry is Entry.HELD:
            self._held.set()
        return entry

    # --- LocalDevice

    def launched(self) -> int:
        return self._port.figures().launched

    @contextmanager
    def log_kernels(self, records: int) -> Iterator[FakeKernelLog]:
        self._stream.log = deque(maxlen=records)
        try:
            yield FakeKernelLog(self._stream.log)
        finally:
            self._stream.log = None

    # --- DeviceAgent

    def hold_launches(self) -> None:
        self._port.hold()

    def wait_for_held_launch(self, seconds: float) -> bool:
        return self._held.wait(seconds)

    def release_launches(self) -> None:
        with self._lock:
            self._held.clear()
            self._port.release()

    def refuse_launches(self, reason: str) -> None:
        with self._lock:
            self._refusal = reason
            self._port.refuse(reason)

    def arm_iteration(self) -> None:
        with self._lock:
            self._port.arm_iteration()

    def disarm_iteration(self) -> bool:
        with self._lock:
            return self._port.disarm_iteration()

    def end_iteration(self) -> IterationFacts | None:
        with self._lock:
            return self._port.end_iteration()

    def take_recent(self) -> tuple[int, int]:
        with self._lock:
            return self._port.take_recent()

    def expect(self, lease_levels: Sequence[int]) -> None:
        with self._lock:
            self._port.expect(lease_levels)

    def run_without_daemon(self) -> None:
        with self._lock:
            self._board.lift_controls(self.slot, restore=bool(self._port.figures().evicted))

    def daemon_is_silent(self, since_ns: int) -> bool:
        return self._board.daemon_silent(since_ns)

    def connect_reports(self, descriptor: int, known_iterations: int) -> None:
        with self._lock:
            self._port.connect_reports(descriptor, known_iterations)

    def disconnect_reports(self) -> None:
        with self._lock:
            if not self._closed:  # the connection's thread may end after the device
                self._port.disconnect_reports()

    def iterations_ended(self) -> int:
        with self._lock:
            return self._port.figures().iterations_ended

    def send(self, frame: bytes, *, after_device: bool = False) -> bool:
        with self._lock:
            if after_device:
                self._port.report_after(frame)
                return True
            return self._port.report(frame, large=len(frame) > _SMALL_BYTES)

    def report_progress(self, frame: bytes) -> None:
        with self._lock:
            self._port.report_progress(frame)

    def report_iteration(self, frame: bytes, facts: IterationFacts) -> None:
        with self._lock:
            self._port.report_iteration(frame, len(frame) - _DURATION_BYTES, facts.index, facts.began_ns)

    def standing_still(self) -> AbstractContextManager[object]:
        """Keeps the job from doing anything on the device, on other threads than this one."""
        return self._lock

    def memory(self) -> MemoryFigures:
        with self._lock:
            seen = self._port.figures()
        return MemoryFigures(
            needed_bytes=seen.needed_bytes,
            needed_peak_bytes=seen.needed_peak_bytes,
            held_bytes=seen.held_bytes,
            held_peak_bytes=seen.held_peak_bytes,
            spare_peak_bytes=seen.spare_peak_bytes,
            over_bytes=seen.over_bytes,
        )

    def check(self) -> None:
        with self._lock:
            self._port.check()

    def close(self) -> None:
        with self._lock:
            self._stream.finish()
            self._port.leave()
            self._closed = True

    def forget_after_fork(self) -> None:
        self._port.forget_reports()


class FakeKernelLog:
    """The kernels that have run while the log was kept."""

    def __init__(self, records: deque[KernelRecord]) -> None:
        self._records = records

    def read(self) -> Sequence[KernelRecord]:
        return tuple(self._records)

    def dropped(self) -> int:
        return 0
