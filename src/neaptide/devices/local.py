"""The devices of this process, as torch knows them."""

from __future__ import annotations

import torch

from neaptide.devices.interface import LocalDevice


def local_device(device: torch.device) -> LocalDevice | None:
    """The device that torch knows by this name, if it is one of neaptide's. Changes nothing."""
    if device.type in ("cpu", "meta"):
        return None
    found: LocalDevice | None = getattr(torch.get_device_module(device), "neaptide_device", None)
    return found


def pick_device() -> torch.device:
    """The device to run a model on: this machine's GPU, or the software GPU where there is none, which this starts."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    import neaptide.devices.soft  # noqa: F401 - makes the device

    return torch.device("soft")
