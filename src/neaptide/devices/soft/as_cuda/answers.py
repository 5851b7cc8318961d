"""torch.cuda's calls for the soft device: those of torch.soft with the same names, and some more."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from neaptide.core.units import format_bytes
from neaptide.devices.soft import torch_module
from neaptide.devices.soft.as_cuda import streams
from neaptide.devices.soft.as_cuda.patches import Patches
from neaptide.devices.soft.as_cuda.saying import Saying
from neaptide.devices.soft.extension import native
from neaptide.devices.soft.settings import memory_fraction_in
from neaptide.devices.soft.torch_module.one_device import Device

CAPABILITY = (8, 0)  # of the first GPUs with bfloat16, which soft has too


@dataclass(frozen=True, slots=True)
class CudaDeviceProperties:
    """The members of torch.cuda's device properties that programs read."""

    name: str
    total_memory: int
    multi_processor_count: int
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    L2_cache_size: int = 0
    is_integrated: int = 1
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""  # noqa: N815 - torch's name
    uuid: str = "soft"


def get_device_properties(device: Device = None) -> CudaDeviceProperties:
    """Name, memory and SMs of the soft device."""
    soft = torch_module.get_device_properties(device)
    return CudaDeviceProperties(soft.name, soft.total_memory, soft.multi_processor_count)


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """The compute capability that programs choose types by."""
    torch_module.set_device(device)
    return CAPABILITY


class device:  # noqa: N801 - as in torch.cuda
    """A context in which the device is current; there is one, so it always is."""

    def __init__(self, device: Device) -> None:
        torch_module.set_device(device)
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class device_of(device):  # noqa: N801 - as in torch.cuda
    """A context in which the device of a tensor is current."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.is_cuda else None)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """What is allocated and reserved, now and at most."""
    stats = torch_module.memory_stats(device)
    rows = [("Allocated", "allocated_bytes.all"), ("Reserved", "reserved_bytes.all")]
    lines = [f"{'Neaptide soft, device 0':<24}{'now':>12}{'at most':>12}"]
    for label, key in rows:
        now, peak = format_bytes(stats[f"{key}.current"]), format_bytes(stats[f"{key}.peak"])
        lines.append(f"{label:<24}{now:>12}{peak:>12}")
    if not abbreviated:
        lines.append(f"{'Out of memory':<24}{stats['num_ooms']:>12}")
    return "\n".join(lines)


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """The counters of `memory_stats`, by the parts of their names."""
    nested: dict[str, Any] = {}
    for key, value in torch_module.memory_stats(device).items():
        *path, last = key.split(".")
        inner = nested
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


class Cudart:
    """The calls of the CUDA runtime that programs make through torch; each reports success."""

    cudaError = torch.cuda.cudaStatus  # noqa: N815

    def cudaMemGetInfo(self, device: int = 0) -> tuple[int, int]:  # noqa: N802
        return torch_module.mem_get_info(device)

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name not in ("cudaProfilerStart", "cudaProfilerStop", "cudaHostRegister", "cudaHostUnregister"):
            raise AttributeError(f"the software GPU has no {name}")
        return lambda *_: 0


class Ranges:
    """nvtx without a profiler: ranges and marks do nothing."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0


_keeps_no_history = Saying("the software GPU that stands in for cuda keeps no memory history; its snapshots are empty")


def _record_memory_history(enabled: Any = "all", *_: Any, **__: Any) -> None:
    if enabled:
        _keeps_no_history()


def _snapshot(*_: Any, **__: Any) -> dict[str, Any]:
    return {"segments": [], "device_traces": [], "allocator_settings": {}}


def _dump_snapshot(filename: str = "dump_snapshot.pickle", *_: Any, **__: Any) -> None:
    with Path(filename).open("wb") as file:
        pickle.dump(_snapshot(), file)


def _set_allocator_settings(settings: str) -> None:
    """The limit is followed; where blocks are placed has no settings."""
    fraction = memory_fraction_in(settings)
    if fraction is not None:
        torch_module.set_per_process_memory_fraction(fraction)


def _do_nothing(*_: Any, **__: Any) -> None:
    pass


def _answer(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _call(function: Callable[[], Any], **_: Any) -> None:
    function()


def answers() -> dict[str, Any]:
    """Everything that torch.cuda is given, by name."""
    given = {name: getattr(torch_module, name) for name in torch_module.__all__ if hasattr(torch.cuda, name)}
    given |= {name: getattr(streams, name) for name in ("Event", "Stream", "StreamContext", "stream", "set_stream")}
    given |= {
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "device": device,
        "device_of": device_of,
        "get_device_properties": get_device_properties,
        "get_device_capability": get_device_capability,
        "get_arch_list": _answer([]),
        "get_gencode_flags": _answer(""),
        "is_bf16_supported": _answer(True),
        "is_tf32_supported": _answer(False),
        "can_device_access_peer": _answer(False),
        "default_generators": (native.default_generator(),),
        "seed_all": torch_module.seed,
        "memory_cached": torch_module.memory_reserved,
        "max_memory_cached": torch_module.max_memory_reserved,
        "reset_max_memory_allocated": torch_module.reset_peak_memory_stats,
        "reset_max_memory_cached": torch_module.reset_peak_memory_stats,
        "reset_accumulated_memory_stats": _do_nothing,
        "memory_summary": memory_summary,
        "memory_stats_as_nested_dict": memory_stats_as_nested_dict,
        "memory_snapshot": _answer([]),
        "_record_memory_history": _record_memory_history,
        "_snapshot": _snapshot,
        "_dump_snapshot": _dump_snapshot,
        "_set_allocator_settings": _set_allocator_settings,
        "host_memory_stats": _answer({}),
        "get_allocator_backend": _answer("soft"),
        "device_memory_used": lambda device=None: -int.__sub__(*torch_module.mem_get_info(device)),
        "ipc_collect": _do_nothing,
        "set_sync_debug_mode": _do_nothing,
        "get_sync_debug_mode": _answer(0),
        "cudart": _answer(Cudart()),
        "check_error": _do_nothing,
        "is_current_stream_capturing": _answer(False),
        "init": _do_nothing,
        "_lazy_init": _do_nothing,
        "_lazy_call": _call,
        "_initialized": True,
        "_is_in_bad_fork": torch_module._is_in_bad_fork,
        "neaptide_device": torch_module.neaptide_device,  # type: ignore[attr-defined]
        "_exchange_device": _answer(0),
        "_maybe_exchange_device": _answer(0),
    }
    return given


def patch(patches: Patches) -> None:
    """Replace the calls in torch.cuda and in the modules that define them."""
    cuda = torch.cuda
    for name, value in answers().items():
        for module in (cuda, cuda.memory, cuda.random, cuda.streams, cuda.graphs, cuda.profiler):
            if module is cuda or name in vars(module):
                patches.set(module, name, value)
    patches.set(cuda.nvtx, "_nvtx", Ranges())
    patches.set(torch.backends.cudnn, "is_acceptable", _answer(False))  # else it warns at every recurrent layer
