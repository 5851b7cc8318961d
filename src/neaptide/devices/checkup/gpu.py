"""What sharing needs of an NVIDIA GPU and its driver."""

from __future__ import annotations

import os
from pathlib import Path

from neaptide.core.units import format_bytes
from neaptide.devices.checkup.finding import Finding, Grade
from neaptide.devices.checkup.machine import torch_build
from neaptide.devices.cuda import driver, mps, nvml
from neaptide.devices.cuda.headers import HEADER, find_headers

_OLDEST_CUDA = (12, 0)
_MOST_SHOWN = 4


def gpu_findings() -> list[Finding]:
    """The driver, each GPU that CUDA_VISIBLE_DEVICES leaves, and what torch needs to use it."""
    try:
        version, gpus = nvml.driver_version(), nvml.visible_gpus()
    except nvml.NvmlError as error:
        remedy = "programs that ask for cuda get the software GPU (docs/soft-gpu.md)"
        return [Finding("GPU", Grade.WARNING, str(error), remedy)]
    if not gpus:
        return [Finding("GPU", Grade.WARNING, "CUDA_VISIBLE_DEVICES leaves none", "unset it, or name a GPU in it")]
    found = [_driver(version), *_cuda_build(), _mps()]
    for index, gpu in enumerate(gpus):
        found += [_gpu(index, gpu), _pages(index, gpu), _others(index, gpu)]
    return found


def _driver(version: str) -> Finding:
    cuda = driver.cuda_version()
    if cuda is None:
        return Finding("driver", Grade.FAILURE, f"{version}, without libcuda.so.1", "install the NVIDIA driver again")
    text = f"{version}, for CUDA {cuda[0]}.{cuda[1]}"
    if cuda < _OLDEST_CUDA:
        return Finding("driver", Grade.FAILURE, text, "install a driver for CUDA 12 or newer")
    return Finding("driver", Grade.OK, text)


def _cuda_build() -> list[Finding]:
    build = torch_build()
    if build is None:
        return []  # said already
    version, cuda = build
    if cuda is None:
        text = f"torch {version} is built for the CPU; programs do not find the GPU"
        return [Finding("CUDA build", Grade.FAILURE, text, "install torch's CUDA build: https://pytorch.org")]
    headers = find_headers(cuda)
    if headers is None:
        remedy = "pip install nvidia-cuda-runtime, or set CUDA_HOME"
        return [Finding("CUDA headers", Grade.FAILURE, f"{HEADER} of CUDA {cuda} was not found", remedy)]
    return [Finding("CUDA headers", Grade.OK, str(headers))]


def _mps() -> Finding:
    program = mps.find_control()
    if program is None:
        return Finding("MPS", Grade.WARNING, f"{mps.CONTROL} was not found: {mps.LOST}")
    if pipe := os.environ.get("CUDA_MPS_PIPE_DIRECTORY"):
        return Finding("MPS", Grade.OK, f"{program}; CUDA_MPS_PIPE_DIRECTORY names one that runs in {pipe}")
    return Finding("MPS", Grade.OK, f"{program}; neaptide up --mps starts it")


def _gpu(index: int, gpu: nvml.Gpu) -> Finding:
    text = f"{gpu.name}, {format_bytes(gpu.total_bytes)}, of which {format_bytes(gpu.free_bytes)} are free"
    return Finding(f"GPU {index}", Grade.OK, text)


def _pages(index: int, gpu: nvml.Gpu) -> Finding:
    if driver.maps_pages(gpu.uuid):
        return Finding(f"GPU {index} pages", Grade.OK, "virtual memory management is there")
    text = "its driver has no virtual memory management, without which memory cannot be shared"
    return Finding(f"GPU {index} pages", Grade.FAILURE, text, "use another GPU, or a newer driver")


def _others(index: int, gpu: nvml.Gpu) -> Finding:
    try:
        others = nvml.processes(gpu)
    except nvml.NvmlError as error:
        return Finding(f"GPU {index} processes", Grade.WARNING, str(error))
    if not others:
        return Finding(f"GPU {index} processes", Grade.OK, "no process uses it")
    shown = [f"{each.pid} ({_program(each.pid)}): {_bytes(each)}" for each in others[:_MOST_SHOWN]]
    more = f" and {len(others) - _MOST_SHOWN} more" if len(others) > _MOST_SHOWN else ""
    remedy = "what processes outside neaptide hold is not part of the budget; end them, or give a lower --budget"
    return Finding(f"GPU {index} processes", Grade.WARNING, "; ".join(shown) + more, remedy)


def _bytes(process: nvml.GpuProcess) -> str:
    return "unknown memory" if process.used_bytes is None else format_bytes(process.used_bytes)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "another user's, or in another container"
