"""The software GPU inside a job."""

from __future__ import annotations

import torch

from neaptide.devices.native_agent import NativeAgent
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.kind import KIND


class SoftAgent(NativeAgent):
    """A DeviceAgent over the C++ part; devices/soft/csrc says what each call guarantees."""

    supplies = KIND.supplies
    spec_name = "soft"

    def __init__(self) -> None:
        super().__init__(native, torch.device("soft").type)  # `cuda` where that name means this device
