"""Devices that jobs share: the software GPU, and what every device has in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def pick_device() -> torch.device:
    """The device to run jobs on: this machine's GPU, or the software GPU where there is none, which this starts."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    import neaptide.devices.soft  # noqa: F401 - makes the device

    return torch.device("soft")
