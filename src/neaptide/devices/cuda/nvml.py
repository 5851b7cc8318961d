"""The machine's GPUs as NVIDIA's management library (NVML) knows them: without torch, and without a context on any."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_UNKNOWN_BYTES = 2**64 - 1
_MOST_PROCESSES = 1024


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Pci(ctypes.Structure):
    _fields_ = (
        ("short_bus_id", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device", ctypes.c_uint),
        ("pci_subsystem", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class NvmlError(ValueError):
    """There is no NVIDIA GPU here, or its driver does not answer; one clear line."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, as it was when it was asked for."""

    name: str
    uuid: str
    bus_id: int  # its PCI address as devices/cuda/csrc/region/nvml.h packs it
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that has a context on a GPU."""

    pid: int
    used_bytes: int | None  # NVML does not always know


@cache
def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        raise NvmlError(f"no NVIDIA GPU was found: there is no {_LIBRARY}, which comes with the driver") from None
    if (result := library.nvmlInit_v2()) != _SUCCESS:
        raise NvmlError(f"the NVIDIA driver does not answer (NVML error {result}); `nvidia-smi` may say why")
    return library


def _ask(function: str, *arguments: Any) -> None:
    if (result := getattr(_load(), function)(*arguments)) != _SUCCESS:
        raise NvmlError(f"the NVIDIA driver does not answer {function} (NVML error {result})")


def _text(function: str, device: ctypes.c_void_p | None) -> str:
    text = ctypes.create_string_buffer(128)
    _ask(function, *(() if device is None else (device,)), text, len(text))
    return text.value.decode(errors="replace")


def driver_version() -> str:
    """The version of the NVIDIA driver; NvmlError where there is none."""
    return _text("nvmlSystemGetDriverVersion", None)


def all_gpus() -> list[Gpu]:
    """Every GPU of the machine, in the order of `nvidia-smi`; NvmlError where there is no driver."""
    count = ctypes.c_uint()
    _ask("nvmlDeviceGetCount_v2", ctypes.byref(count))
    return [_gpu(index) for index in range(count.value)]


def _gpu(index: int) -> Gpu:
    device = ctypes.c_void_p()
    _ask("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
    memory, pci = _Memory(), _Pci()
    _ask("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
    _ask("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(pci))
    return Gpu(
        name=_text("nvmlDeviceGetName", device),
        uuid=_text("nvmlDeviceGetUUID", device),
        bus_id=1 << 63 | pci.domain << 16 | (pci.bus & 0xFF) << 8 | (pci.device & 0xFF),
        total_bytes=memory.total,
        free_bytes=memory.free,
    )


def processes(gpu: Gpu) -> list[GpuProcess]:
    """The processes that have a context on the GPU."""
    device, count = ctypes.c_void_p(), ctypes.c_uint(_MOST_PROCESSES)
    _ask("nvmlDeviceGetHandleByUUID", gpu.uuid.encode(), ctypes.byref(device))
    found = (_Process * _MOST_PROCESSES)()
    _ask("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), found)
    seen = found[: count.value]
    return [GpuProcess(each.pid, None if each.used == _UNKNOWN_BYTES else each.used) for each in seen]


def visible_gpus() -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order: by the index of `nvidia-smi` or by (part of) the UUID.

    As CUDA does it: whatever follows the first entry that names no GPU is left out. A GPU that is named twice
    leaves none.
    """
    gpus = all_gpus()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return gpus
    found: list[Gpu] = []
    for entry in (part.strip() for part in named.split(",")):
        if entry.startswith("MIG-") and not found:
            raise NvmlError(
                f"CUDA_VISIBLE_DEVICES names a part of a GPU ({entry}): only whole GPUs can be shared; name one by its "
                "number or by its UUID, which begins with GPU-"
            )
        gpu = _named(entry, gpus)
        if gpu is None:
            break
        if gpu in found:
            return []
        found.append(gpu)
    return found


def _named(entry: str, gpus: list[Gpu]) -> Gpu | None:
    if entry.startswith("GPU-"):
        alike = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        return alike[0] if len(alike) == 1 else None
    number = re.match(r"\+?[0-9]+", entry)  # what follows the digits does not count
    index = int(number.group()) if number else -1
    return gpus[index] if 0 <= index < len(gpus) else None
