"""Calls of torch.cuda that the soft device cannot have: they raise one clear line instead of failing inside torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from neaptide.devices.soft.as_cuda.patches import Patches
from neaptide.devices.soft.as_cuda.saying import Saying

_IMPOSSIBLE = {
    "CUDAGraph": "CUDA graphs",
    "graph": "CUDA graphs",
    "graph_pool_handle": "CUDA graphs",
    "make_graphed_callables": "CUDA graphs",
    "CUDAPluggableAllocator": "other allocators",
    "MemPool": "memory pools",
    "GreenContext": "green contexts",
    "ExternalStream": "streams of other libraries",
    "get_stream_from_external": "streams of other libraries",
    "current_blas_handle": "cuBLAS",
    "caching_allocator_alloc": "raw allocations",
    "caching_allocator_delete": "raw allocations",
    "_compile_kernel": "CUDA kernels",
    **dict.fromkeys(("utilization", "memory_usage", "temperature", "power_draw", "clock_rate"), "sensors"),
}


class NotOnSoftError(RuntimeError):
    """A program asked for something that only a real GPU has."""


def _refusal(name: str, what: str) -> Callable[..., NoReturn] | type:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotOnSoftError(f"torch.cuda.{name}: the software GPU that stands in for cuda has no {what}")

    # A class is replaced by a class: libraries use it in annotations.
    return type(name, (), {"__new__": refuse}) if isinstance(getattr(torch.cuda, name), type) else refuse


def _compile(torch_compile: Callable[..., Any]) -> Callable[..., Any]:
    say = Saying("torch.compile makes no code for the software GPU; running without it")

    @functools.wraps(torch_compile)
    def compile(model: Any = None, *, backend: Any = "inductor", disable: bool = False, **options: Any) -> Any:  # noqa: A001
        if backend != "inductor" or disable:
            return torch_compile(model, backend=backend, disable=disable, **options)
        say()
        return (lambda function: function) if model is None else model

    return compile


def _profile(torch_init: Callable[..., None]) -> Callable[..., None]:
    say = Saying("torch's profiler cannot look into the software GPU; it records the CPU alone")

    @functools.wraps(torch_init)
    def begin(self: Any, *args: Any, use_cuda: bool = False, use_device: str | None = None, **options: Any) -> None:
        if use_cuda or use_device == "cuda":
            say()
            use_device = None
        torch_init(self, *args, use_device=use_device, **options)

    return begin


def patch(patches: Patches) -> None:
    """Refuse those calls; programs that compile or profile go on without it."""
    for name, what in _IMPOSSIBLE.items():
        if hasattr(torch.cuda, name):
            patches.set(torch.cuda, name, _refusal(name, what))
    patches.set(torch, "compile", _compile(torch.compile))
    profile = torch.autograd.profiler.profile
    patches.set(profile, "__init__", _profile(profile.__init__))
    # The encoder's fast path makes nested tensors, which soft does not have.
    patches.set(torch.backends.mha, "_is_fastpath_enabled", False)
