"""Gives the software GPU the name cuda for the length of a test. Import it before the device is made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

os.environ.setdefault("NEAPTIDE_SOFT_SMS", "1")  # with one SM, results equal those of one CPU thread bit by bit
os.environ.setdefault("NEAPTIDE_SOFT_CAPACITY", "1GiB")
os.environ.setdefault("NEAPTIDE_SOFT_WAIT", "5")

import torch

from neaptide.devices.soft import as_cuda as cuda_as_soft


@contextmanager
def cuda_is_soft() -> Iterator[None]:
    """Give the software GPU the name cuda; afterwards undo that, and the defaults that a test may have set."""
    cuda_as_soft.install()
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    cuda_as_soft.uninstall()
