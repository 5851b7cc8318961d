"""The software GPU inside a job."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from neaptide.devices.board import PERMIT_ALL, Request
from neaptide.devices.board.figures import NO_CEILING, UNBOUNDED
from neaptide.devices.interface import IterationFacts, MemoryFigures
from neaptide.devices.soft import native
from neaptide.devices.soft.kind import KIND
from neaptide.devices.soft.local import SoftDevice

_SMALL_BYTES = 1 << 14


class SoftAgent(SoftDevice):
    """A DeviceAgent over the C++ part; devices/soft/csrc says what each call guarantees."""

    supplies = KIND.supplies

    def __init__(self) -> None:
        super().__init__()
        self.slot = int(native.slot())
        self.device_type = torch.device("soft").type  # `cuda` where that name means this device
        self._reporter = native.Reporter()
        self._ended = 0  # iterations begun when the last one was ended

    def hold_launches(self) -> None:
        native.close_launch_gate()

    def wait_for_held_launch(self, seconds: float) -> bool:
        return bool(native.wait_for_held_launch(seconds))

    def release_launches(self) -> None:
        native.open_launch_gate()

    def refuse_launches(self, reason: str) -> None:
        native.refuse_launches(reason)

    def arm_iteration(self) -> None:
        native.arm_iteration()

    def end_iteration(self) -> IterationFacts | None:
        begun = int(native.iterations_begun())
        if begun == self._ended:
            return None
        self._ended = begun
        native.end_iteration()
        peak_bytes, allocated_bytes = native.take_recent()
        return IterationFacts(begun - 1, native.iteration_began_ns(), peak_bytes, allocated_bytes)

    def take_recent(self) -> tuple[int, int]:
        peak_bytes, allocated_bytes = native.take_recent()
        return peak_bytes, allocated_bytes

    def expect(self, lease_levels: Sequence[int]) -> None:
        native.foresee(list(lease_levels), max(len(lease_levels), 1))

    def run_without_daemon(self) -> None:
        native.set_permit(self.slot, PERMIT_ALL)
        native.set_heavy_open(self.slot, True)
        native.set_slot_cap(self.slot, UNBOUNDED)
        native.set_ceiling(self.slot, NO_CEILING)
        if native.evicted():
            native.request(self.slot, int(Request.RESTORE))

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

    def report_iteration(self, frame: bytes, facts: IterationFacts) -> None:
        self._reporter.end_on_stream(frame, facts.index, facts.began_ns)

    def memory(self) -> MemoryFigures:
        seen = native.memory()
        return MemoryFigures(
            needed_bytes=seen["needed"],
            needed_peak_bytes=seen["needed_peak"],
            held_bytes=seen["held"],
            held_peak_bytes=seen["held_peak"],
            spare_peak_bytes=seen["spare_peak"],
        )

    def check(self) -> None:
        native.check_memory()

    def close(self) -> None:
        native.stop()  # reports of what was launched go out
        self._reporter.disconnect()

    def forget_after_fork(self) -> None:
        self._reporter.forget()
