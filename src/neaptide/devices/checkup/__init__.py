"""What this machine offers to share: one finding for each thing that the devices need. `neaptide doctor` shows them.

`machine` looks at what every device needs, `gpu` at NVIDIA GPUs. Nothing here imports torch, makes a context on a GPU
or changes anything. `neaptide doctor` and `verification` import it.
"""

from __future__ import annotations

from neaptide.devices.checkup.finding import Finding, Grade
from neaptide.devices.checkup.gpu import gpu_findings
from neaptide.devices.checkup.machine import machine_findings
from neaptide.devices.interface import DeviceName

__all__ = ["Finding", "Grade", "examine", "examine_for"]


def examine() -> list[Finding]:
    """Everything that there is to say, in the order in which to read it."""
    return [*machine_findings(), *gpu_findings()]


def examine_for(device: DeviceName) -> list[Finding]:
    """What there is to say about one device: an NVIDIA GPU needs more than the others do."""
    return [*machine_findings(), *(gpu_findings() if device.kind == "cuda" else [])]
