"""A GPU inside a job."""

from __future__ import annotations

from time import monotonic_ns

from neaptide.devices.cuda.extension import native
from neaptide.devices.cuda.kind import KIND
from neaptide.devices.interface import IterationFacts
from neaptide.devices.native_agent import NativeAgent

_COUNT_NS = 200_000_000  # between two counts of the memory that the arena does not manage


class CudaAgent(NativeAgent):
    """A DeviceAgent over the C++ part; devices/cuda/csrc says what each call guarantees."""

    supplies = KIND.supplies

    def __init__(self, spec_name: str) -> None:
        super().__init__(native, "cuda")
        self.spec_name = spec_name
        self._counted_ns = 0

    def end_iteration(self) -> IterationFacts | None:
        native.flush()  # so that the device's progress is told to the last op
        facts = super().end_iteration()
        if facts is not None and monotonic_ns() - self._counted_ns > _COUNT_NS:
            native.count_outside()
            self._counted_ns = monotonic_ns()
        return facts
