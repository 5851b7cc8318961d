"""The devices of this process, as torch knows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch

from neaptide.core.text import complain
from neaptide.devices import default_kind
from neaptide.devices.interface import GpuPresentError, LocalDevice


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


@contextmanager
def found_by_programs() -> Iterator[None]:
    """Inside, a program of this process finds the device as it does under `neaptide run`, on a board of its own."""
    with ExitStack() as stack:
        try:
            kind = default_kind()
            kind.prepare()
            stack.callback(kind.unprepare)
        except GpuPresentError:
            pass  # the program finds the GPU
        except (ValueError, RuntimeError) as error:  # it cannot be built here
            complain(f"the program does not find the device: {error}")
        yield
