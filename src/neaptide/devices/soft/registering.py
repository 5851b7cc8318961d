"""Importing this makes the device `soft` and the module `torch.soft`. The device starts at its first use."""

from __future__ import annotations

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from neaptide.devices.optimizer_steps import place_apart
from neaptide.devices.soft import starting, torch_module
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.local import SoftDevice
from neaptide.devices.soft.moving import keep_parameters

rename_privateuse1_backend("soft")
torch._register_device_module("soft", torch_module)  # type: ignore[no-untyped-call]
generate_methods_for_privateuse1_backend()
torch_module.neaptide_device = SoftDevice()  # type: ignore[attr-defined] # devices.local finds it

place_apart(native.set_persistent)
keep_parameters()

__all__ = ["starting"]
