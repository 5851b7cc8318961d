"""Checks of a device's index: there is one device."""

from __future__ import annotations

import torch

Device = torch.device | str | int | None


def check_device(device: Device) -> None:
    """Raise RuntimeError, as CUDA does, for a device that does not exist."""
    index = device if isinstance(device, int) else torch.device(device or "soft").index
    if index not in (None, 0, -1):
        name = torch.device("soft").type
        raise RuntimeError(f"invalid device ordinal: {name}:{index} was asked for, and there is one device, {name}:0")
