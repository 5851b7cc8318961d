"""Streams and events with the names and members that torch.cuda's have."""

from __future__ import annotations

from typing import Self

import torch

from neaptide.devices.soft.torch_module.one_device import Device, check_device


class Stream(torch.Stream):
    """A stream of the soft device."""

    def __new__(cls, device: Device = None, priority: int = 0, **ids: int) -> Self:
        if ids:
            return super().__new__(cls, **ids)
        return super().__new__(cls, device="soft" if device is None else device, priority=priority)

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    @property
    def priority(self) -> int:
        """All streams have the same."""
        return 0

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """As CUDA answers for a device that knows no priorities."""
        return 0, 0

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        recorded = Event() if event is None else event
        recorded.record(self)
        return recorded

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event)


class Event(metaclass=_EventType):
    """A point in a stream; calling it makes a torch.Event, the only kind that events can be compared with."""

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> torch.Event:
        if interprocess or external:
            raise ValueError("events of the software GPU cannot be shared with other processes or libraries")
        return torch.Event("soft", enable_timing=enable_timing, blocking=blocking)


def _of_cuda(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: Device = None) -> Stream:
    """The stream that this thread launches on."""
    return _of_cuda(torch.accelerator.current_stream(_index(device)))


def default_stream(device: Device = None) -> Stream:
    """The stream that is current at the start."""
    _index(device)
    return Stream(stream_id=0, device_index=0, device_type=20)


def set_stream(stream: torch.Stream | None) -> None:
    """Make a stream current for this thread."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Launches on another stream inside the context; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: list[torch.Stream] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before.append(torch.accelerator.current_stream())
            torch.accelerator.set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self._before:
            torch.accelerator.set_stream(self._before.pop())


def stream(stream: torch.Stream | None) -> StreamContext:
    """Launch on another stream inside the context."""
    return StreamContext(stream)


def _index(device: Device) -> int:
    index: int = torch.cuda._utils._get_device_index(device, optional=True)
    check_device(index)
    return index
