"""A device inside a job, over a C++ module that has the functions of devices/native/python/port_bindings.h."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from neaptide.devices.interface import IterationFacts, KernelLog, KernelRecord, MemoryFigures

_SMALL_BYTES = 1 << 14


class NativeLog:
    """What the module keeps of the last kernels: the program's own log, or the one by which a job is measured."""

    def __init__(self, native: Any, *, measuring: bool) -> None:
        self._native, self._measuring = native, measuring

    def read(self) -> list[KernelRecord]:
        return [KernelRecord(*record) for record in self._native.kernel_log(measuring=self._measuring)]

    def dropped(self) -> int:
        return int(self._native.dropped_records(measuring=self._measuring))

    @contextmanager
    def keep(self, records: int) -> Iterator[KernelLog]:
        """Keep the last `records` kernels launched inside the context."""
        self._native.start_log(records, measuring=self._measuring)
        try:
            yield self
        finally:
            self._native.stop_log(measuring=self._measuring)


class NativeAgent:
    """All of a DeviceAgent but what names the device; devices/native/launch says what each call guarantees."""

    def __init__(self, native: Any, device_type: str) -> None:
        self._native = native
        self.slot = int(native.slot())
        self.device_type = device_type
        self._reporter = native.Reporter()
        self._ended = 0  # iterations begun when the last one was ended

    @property
    def sms(self) -> int:
        return int(self._native.sms())

    def launched(self) -> int:
        return int(self._native.launched())

    def log_kernels(self, records: int) -> AbstractContextManager[KernelLog]:
        return NativeLog(self._native, measuring=True).keep(records)

    def hold_launches(self) -> None:
        self._native.close_launch_gate()

    def wait_for_held_launch(self, seconds: float) -> bool:
        return bool(self._native.wait_for_held_launch(seconds))

    def release_launches(self) -> None:
        self._native.open_launch_gate()

    def refuse_launches(self, reason: str) -> None:
        self._native.refuse_launches(reason)

    def arm_iteration(self) -> None:
        self._native.arm_iteration()

    def disarm_iteration(self) -> bool:
        return bool(self._native.disarm_iteration())

    def end_iteration(self) -> IterationFacts | None:
        begun = int(self._native.iterations_begun())
        if begun == self._ended:
            return None
        self._ended = begun
        self._native.end_iteration()
        peak_bytes, allocated_bytes = self.take_recent()
        return IterationFacts(begun - 1, self._native.iteration_began_ns(), peak_bytes, allocated_bytes)

    def take_recent(self) -> tuple[int, int]:
        peak_bytes, allocated_bytes = self._native.take_recent()
        return peak_bytes + int(self._native.outside_bytes()), allocated_bytes

    def expect(self, lease_levels: Sequence[int]) -> None:
        self._native.expect(list(lease_levels), max(len(lease_levels), 1))

    def run_without_daemon(self) -> None:
        self._native.lift_controls(self.slot, bool(self._native.evicted()))

    def daemon_is_silent(self, since_ns: int) -> bool:
        return bool(self._native.daemon_is_silent(since_ns))

    def connect_reports(self, descriptor: int, known_iterations: int) -> None:
        self._reporter.connect(descriptor, known_iterations)

    def disconnect_reports(self) -> None:
        self._reporter.disconnect()

    def iterations_ended(self) -> int:
        return int(self._reporter.ended())

    def send(self, frame: bytes, *, after_device: bool = False) -> bool:
        if after_device:
            self._reporter.send_on_stream(frame)
            return True
        return bool(self._reporter.send(frame, len(frame) > _SMALL_BYTES))

    def report_progress(self, frame: bytes) -> None:
        self._reporter.progress_on_stream(frame)

    def report_iteration(self, frame: bytes, facts: IterationFacts) -> None:
        self._reporter.end_on_stream(frame, facts.index, facts.began_ns)

    def memory(self) -> MemoryFigures:
        seen = self._native.memory()
        outside_bytes = seen["outside"]
        return MemoryFigures(
            needed_bytes=seen["needed"] + outside_bytes,
            needed_peak_bytes=seen["needed_peak"] + outside_bytes,
            held_bytes=seen["held"] + outside_bytes,
            held_peak_bytes=seen["held_peak"] + outside_bytes,
            spare_peak_bytes=seen["spare_peak"],
            outside_bytes=outside_bytes,
            over_bytes=seen["over"],
        )

    def check(self) -> None:
        self._native.check_memory()

    def close(self) -> None:
        self._native.stop()  # reports of what was launched go out
        self._reporter.disconnect()

    def forget_after_fork(self) -> None:
        self._reporter.forget()
