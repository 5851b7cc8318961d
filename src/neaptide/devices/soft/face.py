"""What `torch.soft` offers: the calls of `torch.cuda`, and those of this device alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import torch
from torch import Tensor

from neaptide.devices.soft.extension import native
from neaptide.devices.soft.kernel_log import KernelRecord, kernel_log, log_kernels
from neaptide.devices.soft.memory import (
    MemorySample,
    empty_cache,
    evict,
    held_and_needed,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    persistent_memory,
    record_memory_series,
    reset_peak_memory_stats,
    restore,
)
from neaptide.devices.soft.one_device import Device, check_device

__all__ = [
    "DeviceProperties",
    "Event",
    "KernelRecord",
    "MemorySample",
    "Stream",
    "begin_iteration",
    "close_execution_gate",
    "close_launch_gate",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "end_iteration",
    "evict",
    "execution_gate_is_open",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "held_and_needed",
    "in_flight",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "kernel_log",
    "launch_gate_is_open",
    "log_kernels",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "open_execution_gate",
    "open_launch_gate",
    "persistent_memory",
    "record_memory_series",
    "reset_peak_memory_stats",
    "restore",
    "seed",
    "set_device",
    "set_in_flight_cap",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


_initialized = True  # torch.utils.checkpoint asks for it before it keeps the random state

# The device.


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What the device is. `multi_processor_count` is its SMs, `width` the most of them a kernel here uses."""

    name: str
    total_memory: int
    multi_processor_count: int
    width: int
    board: str


def is_available() -> bool:
    """Whether the device can be used, which it can when it could be imported."""
    return True


def is_initialized() -> bool:
    """Whether the device has been started, which importing it does."""
    return True


def _is_in_bad_fork() -> bool:
    return bool(native.forked())


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


# Streams and events.


def synchronize(device: Device = None) -> None:
    """Wait for all launched work; raises what a kernel raised since the last time."""
    check_device(device)
    native.synchronize()


class Stream:
    """A queue of kernels with a worker of its own; what is made is a torch.Stream."""

    def __new__(cls, device: Device = None, priority: int = 0) -> torch.Stream:  # type: ignore[misc]
        check_device(device)
        return torch.Stream(device="soft", priority=priority)


class Event:
    """A point in a stream, always with a time; what is made is a torch.Event."""

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


# Launching.


def in_flight() -> int:
    """Kernels launched and not yet done."""
    return int(native.in_flight())


def set_in_flight_cap(kernels: int | None) -> None:
    """Let launching run at most so many kernels ahead; None means no bound."""
    if kernels is not None and kernels < 1:
        raise ValueError(f"at least one kernel must be allowed in flight, not {kernels}")
    native.set_in_flight_cap(kernels or 0)


def close_launch_gate() -> None:
    """Hold every launch from now on, before it takes memory."""
    native.close_launch_gate()


def open_launch_gate() -> None:
    """Let launches go on."""
    native.open_launch_gate()


def launch_gate_is_open() -> bool:
    """Whether launches pass."""
    return bool(native.launch_gate_open())


def close_execution_gate() -> None:
    """Hold every kernel that has not begun, before it takes SMs."""
    native.close_execution_gate()


def open_execution_gate() -> None:
    """Let kernels run."""
    native.open_execution_gate()


def execution_gate_is_open() -> bool:
    """Whether kernels pass."""
    return bool(native.execution_gate_open())


def begin_iteration() -> None:
    """Make the next launch begin an iteration on the board, and wait for its permit."""
    native.arm_iteration()


def end_iteration() -> None:
    """The iteration has been launched: this process's claim on memory is last again."""
    native.end_iteration()


# Random numbers.


def _generator() -> torch.Generator:
    generator = native.default_generator()
    assert isinstance(generator, torch.Generator)
    return generator


def manual_seed(seed: int) -> None:
    """Seed the device's generator; torch.manual_seed does it too."""
    _generator().manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> int:
    """Seed from the system."""
    return _generator().seed()


def initial_seed() -> int:
    """The seed in use."""
    return _generator().initial_seed()


def get_rng_state(device: Device = "soft") -> Tensor:
    """The state of the generator, as of the launches so far."""
    check_device(device)
    return _generator().get_state()


def set_rng_state(state: Tensor, device: Device = "soft") -> None:
    """Set the state for the launches to come."""
    check_device(device)
    _generator().set_state(state)


def get_rng_state_all() -> list[Tensor]:
    """The states of all devices: of the one there is."""
    return [get_rng_state()]


def set_rng_state_all(states: list[Tensor]) -> None:
    """Set the states of all devices."""
    for state in states:
        set_rng_state(state)
