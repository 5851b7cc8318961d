"""Which device there is, and what it is."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import torch

from neaptide.devices.soft.extension import native
from neaptide.devices.soft.torch_module.one_device import Device, check_device


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What the device is. `multi_processor_count` is its SMs, `width` the most of them a kernel here uses."""

    name: str
    total_memory: int
    multi_processor_count: int
    width: int
    board: str


def is_available() -> bool:
    """Whether the device can be used: always, once it is imported."""
    return True


def is_initialized() -> bool:
    """Whether the device has been started: at its first use."""
    return bool(native.started())


def device_count() -> int:
    """How many devices there are: one."""
    return 1


def current_device() -> int:
    """The index of the device."""
    return 0


def set_device(device: Device) -> None:
    """Check that the device exists; there is one."""
    check_device(device)


class device:  # noqa: N801 - as in torch.cuda
    """A context in which the device is current; there is one, so it always is."""

    def __init__(self, device: Device) -> None:
        check_device(device)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def get_device_name(device: Device = None) -> str:
    """The device's name."""
    return get_device_properties(device).name


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Name, memory and SMs of the device."""
    check_device(device)
    return DeviceProperties(
        name="Neaptide soft",
        total_memory=native.board_memory()[2],
        multi_processor_count=native.sms(),
        width=native.width(),
        board=native.board_path(),
    )


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The types that autocast may use."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported() -> bool:
    """Whether bfloat16 works."""
    return True
