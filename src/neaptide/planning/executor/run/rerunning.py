"""Runs recorded ops again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from neaptide.planning.executor.compile.program import Chain, Rerun
from neaptide.planning.executor.compile.recording import Reference


def rerun(
    chain: Chain, wanted: int, find: Callable[[int], Tensor | None], bytes_of: Mapping[int, int]
) -> dict[int, Tensor]:
    """Run a chain; return tensors that hold the storages that it made and that stay, the wanted one among them.

    `find` gives some view of a storage that the chain does not make. Autocast is off, because the recorded ops include
    its casts. Gradients are enabled, because some kernels ask for that and compute otherwise, but no graph is made.
    """
    made: dict[int, Tensor] = {}
    with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd(), torch._C._DisableAutocast():
        for step in chain.reruns:
            _run(step, chain, made, find, bytes_of)
            for tensor in step.frees:
                if tensor != wanted:
                    made.pop(tensor, None)
    return made


def _run(
    step: Rerun,
    chain: Chain,
    made: dict[int, Tensor],
    find: Callable[[int], Tensor | None],
    bytes_of: Mapping[int, int],
) -> None:
    def tensor_of(reference: Reference) -> Tensor:
        number = reference.tensor
        if number in step.begins:
            holder: Tensor | None = torch.empty(bytes_of[number], dtype=torch.uint8, device=reference.device)
        else:
            holder = made.get(number) if number in chain.members else find(number)
        if holder is None:
            raise RuntimeError(f"op {step.op} cannot run again: tensor {number} is gone")
        if number in chain.members:
            made[number] = holder
        view = reference.view.on(holder)
        return view.clone() if number in step.replaced else view

    call = step.call
    out = call.function(*_filled(call.arguments, tensor_of), **_filled(call.keywords, tensor_of))
    for reference, tensor in zip(call.results, _flat(out), strict=True):
        if reference is not None and reference.tensor in chain.members:
            made[reference.tensor] = tensor


def _filled(value: Any, tensor_of: Callable[[Reference], Tensor]) -> Any:
    if isinstance(value, Reference):
        return tensor_of(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(item, tensor_of) for item in value)
    if isinstance(value, Mapping):
        return {key: _filled(item, tensor_of) for key, item in value.items()}
    return value


def _flat(out: Any) -> list[Any]:
    """The results one by one, as the recording counts them."""
    if isinstance(out, (list, tuple)):
        return [item for part in out for item in _flat(part)]
    return [out]
