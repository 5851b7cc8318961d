"""Finds sizes of networks that suit the device: python -m ... BYTES SECONDS FILE NETWORK...

Each network gets the largest size of which an iteration takes at most so long and holds at most so many bytes, or the
smallest of all.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from time import perf_counter

import msgspec
import torch

from neaptide.models import build
from neaptide.models.zoo import Scale
from neaptide.verification.facts import Load, Sizes

_LADDER: tuple[tuple[Scale, int], ...] = (
    ("tiny", 16),
    ("tiny", 64),
    ("paper", 1),
    ("paper", 4),
    ("paper", 16),
    ("paper", 64),
    ("paper", 256),
)
_STEP_UP = 4  # about how much more time the next size takes


def main(most_bytes: str, most_seconds: str, file: str, *networks: str) -> None:
    """Write the sizes."""
    loads = tuple(_fitting(network, int(most_bytes), float(most_seconds)) for network in networks)
    Path(file).write_bytes(msgspec.json.encode(Sizes(loads)))


def _fitting(network: str, most_bytes: int, most_seconds: float) -> Load:
    found = Load(network, *_LADDER[0])
    for scale, batch in _LADDER:
        try:
            seconds, peak_bytes = _measure(network, scale, batch)
        except torch.OutOfMemoryError:
            break
        if seconds > most_seconds or peak_bytes > most_bytes:
            break
        found = Load(network, scale, batch)
        if seconds * _STEP_UP > most_seconds:
            break
    return found


def _measure(network: str, scale: Scale, batch: int) -> tuple[float, int]:
    """The time and the peak of one iteration, after one to warm up."""
    device = torch.accelerator.current_accelerator()
    assert device is not None, "the program finds no device"
    module = torch.get_device_module(device)
    gc.collect()
    module.empty_cache()
    module.reset_peak_memory_stats()
    work = build(network, batch=batch, scale=scale, device=device)
    work.step()
    torch.accelerator.synchronize()
    began = perf_counter()
    work.step()
    torch.accelerator.synchronize()
    return perf_counter() - began, int(module.max_memory_allocated())


if __name__ == "__main__":
    main(*sys.argv[1:])
