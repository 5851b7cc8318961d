"""Checks of a device's index: there is one device."""

from __future__ import annotations

import torch

Device = torch.device | str | int | None


def check_device(device: Device) -> None:
    """Raise ValueError for a device that does not exist."""
    index = device if isinstance(device, int) else torch.device(device or "soft").index
    if index not in (None, 0, -1):
        raise ValueError(f"there is one soft device, soft:0, not soft:{index}")
