"""Streams, events, and waiting for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from neaptide.devices.soft.extension import native
from neaptide.devices.soft.torch_module.one_device import Device, check_device


def synchronize(device: Device = None) -> None:
    """Wait for all launched work; raises the error of a kernel that failed since the last call."""
    check_device(device)
    native.synchronize()


class Stream:
    """A queue of kernels with its own worker; calling it makes a torch.Stream."""

    def __new__(cls, device: Device = None, priority: int = 0) -> torch.Stream:  # type: ignore[misc]
        check_device(device)
        return torch.Stream(device="soft", priority=priority)


class Event:
    """A point in a stream, always with a time; calling it makes a torch.Event."""

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = True, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise ValueError("soft events cannot be shared between processes")
        return torch.Event("soft", enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Device = None) -> torch.Stream:
    """The stream that this thread launches on."""
    check_device(device)
    return torch.accelerator.current_stream()


def default_stream(device: Device = None) -> torch.Stream:
    """The stream that is current at the start."""
    check_device(device)
    return torch.Stream(stream_id=0, device_index=0, device_type=20)


def set_stream(stream: torch.Stream) -> None:
    """Make a stream current for this thread."""
    torch.accelerator.set_stream(stream)


@contextmanager
def stream(chosen: torch.Stream | None) -> Iterator[None]:
    """Launch on another stream inside the context."""
    if chosen is None:
        yield
        return
    with chosen:
        yield
