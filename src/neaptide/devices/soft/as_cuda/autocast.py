"""The calls about autocast that mean CUDA without naming a device."""

from __future__ import annotations

from typing import Any

import torch

from neaptide.devices.soft.as_cuda.patches import Patches


def _is_autocast_enabled(device_type: str = "cuda") -> bool:
    return torch._C.is_autocast_enabled(device_type)


def _set_autocast_enabled(*given: Any) -> None:
    torch._C.set_autocast_enabled(*(given if len(given) == 2 else ("cuda", *given)))


def _get_autocast_gpu_dtype() -> torch.dtype:
    return torch.get_autocast_dtype("cuda")


def _set_autocast_gpu_dtype(dtype: torch.dtype) -> None:
    torch.set_autocast_dtype("cuda", dtype)


def patch(patches: Patches) -> None:
    """Make them mean the soft device."""
    patches.set(torch, "is_autocast_enabled", _is_autocast_enabled)
    patches.set(torch, "set_autocast_enabled", _set_autocast_enabled)
    patches.set(torch, "get_autocast_gpu_dtype", _get_autocast_gpu_dtype)
    patches.set(torch, "set_autocast_gpu_dtype", _set_autocast_gpu_dtype)
