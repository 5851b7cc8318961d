"""The module `torch.soft`: calls that `torch.cuda` has too, and calls of this device alone.

`devices.soft` installs it when it is imported, and nothing else imports it.
"""

from __future__ import annotations

from neaptide.devices.interface import KernelRecord
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.torch_module.kernel_log import dropped_kernels, kernel_log, log_kernels
from neaptide.devices.soft.torch_module.launching import (
    begin_iteration,
    close_execution_gate,
    close_launch_gate,
    end_iteration,
    execution_gate_is_open,
    in_flight,
    launch_gate_is_open,
    launched,
    open_execution_gate,
    open_launch_gate,
    set_in_flight_cap,
)
from neaptide.devices.soft.torch_module.memory import (
    MemorySample,
    empty_cache,
    evict,
    get_per_process_memory_fraction,
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
    set_per_process_memory_fraction,
    set_reuse_at_launch,
)
from neaptide.devices.soft.torch_module.properties import (
    DeviceProperties,
    current_device,
    device,
    device_count,
    get_amp_supported_dtype,
    get_device_name,
    get_device_properties,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
)
from neaptide.devices.soft.torch_module.random_numbers import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    set_rng_state,
    set_rng_state_all,
)
from neaptide.devices.soft.torch_module.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

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
    "dropped_kernels",
    "empty_cache",
    "end_iteration",
    "evict",
    "execution_gate_is_open",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
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
    "launched",
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
    "set_per_process_memory_fraction",
    "set_reuse_at_launch",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

_initialized = True  # torch.utils.checkpoint asks for it before it keeps the random state


def _is_in_bad_fork() -> bool:  # torch.manual_seed asks for it
    return bool(native.forked())
