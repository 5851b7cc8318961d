"""A GPU inside a job."""

from __future__ import annotations

from neaptide.devices.cuda.extension import native
from neaptide.devices.cuda.kind import KIND
from neaptide.devices.interface import IterationFacts
from neaptide.devices.native_agent import NativeAgent


class CudaAgent(NativeAgent):
    """A DeviceAgent over the C++ part; devices/cuda/csrc says what each call guarantees."""

    supplies = KIND.supplies

    def __init__(self, spec_name: str) -> None:
        super().__init__(native, "cuda")
        self.spec_name = spec_name

    def end_iteration(self) -> IterationFacts | None:
        native.flush()  # so that the device's progress is told to the last op
        return super().end_iteration()
