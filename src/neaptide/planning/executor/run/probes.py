"""Checks that reruns give the same results: the user's program may have changed a number since it was recorded.

In some iterations, a few bytes of each dropped tensor are set aside and compared when the tensor has been recomputed.
The comparisons stay on the device; their joint result is read when the next iteration begins.
"""

from __future__ import annotations

import torch
from torch import Tensor

from neaptide.planning.executor.compile.recording import TensorView

_BYTES = 32  # of each tensor
_EVERY = 16  # iterations


def is_probed(iteration: int) -> bool:
    """Whether an iteration, counted from 0, is checked."""
    return iteration < 2 or iteration % _EVERY == 0


class Probes:
    """The bytes set aside in one iteration, by tensor, and the result of the comparisons."""

    def __init__(self, tensors: int) -> None:
        self._room = tensors
        self._aside: Tensor | None = None  # one allocation for all tensors, made at first use
        self._rows: dict[int, int] = {}
        self._differ: Tensor | None = None

    def set_aside(self, tensor: int, holder: Tensor) -> None:
        if self._aside is None:
            self._aside = torch.empty(self._room, _BYTES, dtype=torch.uint8, device=holder.device)
            self._differ = torch.zeros((), dtype=torch.bool, device=holder.device)
        if len(self._rows) < self._room:
            some = _some_bytes(holder)
            row = self._rows.setdefault(tensor, len(self._rows))
            self._aside[row, : some.numel()].copy_(some)

    def compare(self, tensor: int, holder: Tensor) -> None:
        if tensor in self._rows:
            assert self._aside is not None
            assert self._differ is not None
            some = _some_bytes(holder)
            self._differ.logical_or_((some != self._aside[self._rows[tensor], : some.numel()]).any())

    def check(self) -> None:
        """Raise RuntimeError if a recomputed tensor differs from the dropped one. Waits for the device."""
        if self._differ is not None and bool(self._differ):
            raise RuntimeError(
                "an op that ran again gave another result: one of its arguments is a number that has changed since the "
                f"model was profiled; the gradients of up to {_EVERY} iterations may be wrong, so leave the context "
                "and enter a new one"
            )


def _some_bytes(holder: Tensor) -> Tensor:
    size = holder.untyped_storage().nbytes()
    step = -(-size // _BYTES) | 1  # odd, so that all bytes of a number are sampled
    return TensorView(torch.uint8, torch.Size((-(-size // step),)), (step,), 0).on(holder)
