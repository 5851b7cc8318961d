"""The software GPU: importing this makes the device `soft` and the module `torch.soft`.

NEAPTIDE_SOFT_CAPACITY is the memory of a new board, NEAPTIDE_SOFT_SMS the most SMs a kernel uses, NEAPTIDE_SOFT_BOARD
the file that processes on one device share (none: a private one), NEAPTIDE_SOFT_WAIT how many seconds an allocation
waits for memory that other processes hold.
"""

from __future__ import annotations

import atexit

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from neaptide.devices.soft import torch_module
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.local import SoftDevice
from neaptide.devices.soft.moving import keep_parameters
from neaptide.devices.soft.optimizer_steps import place_apart

rename_privateuse1_backend("soft")
torch._register_device_module("soft", torch_module)  # type: ignore[no-untyped-call]
generate_methods_for_privateuse1_backend()
atexit.register(native.stop)
torch_module.neaptide_device = SoftDevice()  # type: ignore[attr-defined] # devices.local finds it

place_apart()
keep_parameters()

__all__ = ["native", "torch_module"]
