"""What the hooks of autograd must know of a saved tensor's storage."""

from __future__ import annotations

import torch
from torch import Tensor


def is_only_saved(address: int) -> bool:
    """Whether only one record holds a storage; Python's own reference to it is the second count."""
    return bool(torch._C._storage_Use_Count(address) <= 2)


def may_be_moved(tensor: Tensor, device_type: str) -> bool:
    """Whether a saved tensor is plain memory on the device."""
    strided = tensor.layout == torch.strided and tensor.device.type == device_type
    return strided and not tensor.is_conj() and not tensor.is_neg()


def checked(tensor: Tensor, saved: int, now: int | None) -> Tensor:
    """The tensor, unless it was changed in place after autograd saved it: then autograd's own error."""
    if now is not None and saved != now:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"a tensor of {list(tensor.shape)} is at version {now}, and was saved at version {saved}"
        )
    return tensor
