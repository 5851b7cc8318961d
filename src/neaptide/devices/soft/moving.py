"""A parameter that moves between the CPU and the device stays the same object, as on CUDA.

torch makes a new parameter where it does not know the device: parameters that modules share would be shared no longer,
and an optimizer made before `model.to("soft")` would go on training the old ones, which the model no longer uses.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]


def keep_parameters() -> None:
    """Tell torch that tensors of the CPU and the device can take each other's place."""
    _LIBRARY.impl("_has_compatible_shallow_copy_type", _compatible, "PrivateUse1")  # type: ignore[no-untyped-call]


def _compatible(tensor: Tensor, other: Tensor) -> bool:
    return tensor.layout == other.layout
