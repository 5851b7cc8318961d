"""Tensors as programs for CUDA handle them: `.cuda()`, `.is_cuda`, and the old types such as torch.cuda.FloatTensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from neaptide.devices.soft.as_cuda.patches import Patches

_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "ShortTensor": torch.int16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "BoolTensor": torch.bool,
}
_PREFIX = "torch.cuda."


class TensorType(type):
    """An old tensor type: makes tensors, converts tensors to it, and supports isinstance."""

    dtype: torch.dtype

    def __call__(cls, *args: Any) -> Any:
        return getattr(torch, cls.__name__)(*args).to("cuda")

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.device.type == "cuda" and instance.dtype == cls.dtype


def _tensor_type(name: str, dtype: torch.dtype) -> TensorType:
    members = {"dtype": dtype, "layout": torch.strided, "is_cuda": True, "is_sparse": False}
    return TensorType(name, (), {**members, "__module__": "torch.cuda"})


def _cuda(
    self: Tensor,
    device: torch.device | str | int | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> Tensor:
    if device is None and memory_format is torch.preserve_format:
        return self.to("cuda", non_blocking=non_blocking)
    chosen = torch.device("cuda" if device is None else device)
    if chosen.type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    return self.to(chosen, non_blocking=non_blocking, memory_format=memory_format)


def _is_cuda(self: Tensor) -> bool:
    return self.device.type == "cuda"


def _dtype(kind: Any) -> torch.dtype | None:
    """The dtype of an old CUDA type; None for any other name."""
    if isinstance(kind, TensorType):
        return kind.dtype
    return _TYPES.get(kind.removeprefix(_PREFIX)) if isinstance(kind, str) and kind.startswith(_PREFIX) else None


def _type(torch_type: Callable[..., Any]) -> Callable[..., Any]:
    def type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **options: Any) -> Any:  # noqa: A001
        if dtype is None:
            return torch_type(self).replace("torch.soft.", _PREFIX)
        wanted = _dtype(dtype)
        if wanted is None:
            return torch_type(self, dtype, non_blocking, **options)
        return self.to("cuda", wanted, non_blocking=non_blocking)

    return type


def _set_default_tensor_type(torch_function: Callable[[Any], None]) -> Callable[[Any], None]:
    def set_default_tensor_type(t: Any) -> None:
        wanted = _dtype(t)
        if wanted is None:
            torch_function(t)
            return
        torch.set_default_dtype(wanted)
        torch.set_default_device("cuda")

    return set_default_tensor_type


def _scatter(tensor: Tensor, devices: Sequence[int], *_: Any) -> list[Tensor]:
    """DataParallel splits batches with this; the one device gets everything."""
    return [tensor.to(torch.device("cuda", index)) for index in devices]


def patch(patches: Patches) -> None:
    """Add these members to tensors and torch.cuda."""
    patches.set(Tensor, "cuda", _cuda)
    patches.set(Tensor, "is_cuda", property(_is_cuda))
    patches.set(Tensor, "is_soft", property(_is_cuda))  # torch's own compares names
    patches.set(Tensor, "type", _type(torch._C.TensorBase.type))
    patches.set(torch, "set_default_tensor_type", _set_default_tensor_type(torch.set_default_tensor_type))
    patches.set(torch._C, "_scatter", _scatter)
    for name, dtype in _TYPES.items():
        patches.set(torch.cuda, name, _tensor_type(name, dtype))
