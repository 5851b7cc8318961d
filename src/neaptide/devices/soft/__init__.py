"""The software GPU: importing this makes the device `soft` and the module `torch.soft`.

NEAPTIDE_SOFT_CAPACITY is the memory of a new board, NEAPTIDE_SOFT_SMS the most SMs a kernel uses, NEAPTIDE_SOFT_BOARD
the file that processes on one device share (none: a private one), NEAPTIDE_SOFT_WAIT how many seconds an allocation
waits for memory that other processes hold. Where torch finds a GPU, importing this raises ValueError.

`csrc` is the device in C++, `torch_module` the module `torch.soft`, `as_cuda` its face as `cuda`; `kind` and `agent`
are what `devices.interface` asks for. Only `devices` imports this room, by name, and programs that want the device.
"""

import torch  # noqa: F401 - first of all: under `neaptide run` this import prepares the device, with the modules below

from neaptide.devices.soft.kind import check_no_gpu

check_no_gpu()

from neaptide.devices.soft import registering, torch_module  # noqa: E402 - builds the device
from neaptide.devices.soft.extension import native  # noqa: E402

__all__ = ["native", "registering", "torch_module"]
