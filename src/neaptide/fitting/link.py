"""The device of this machine as the cost model sees it: figures of the catalogue, a measured link and swap."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import torch

from neaptide.core.device import CATALOGUE, DeviceSpec, find_device
from neaptide.devices.local import local_device
from neaptide.planning.executor.run.copying import Copier

_BYTES = 16 << 20
_SWAPS = 32


def spec_of(device: torch.device) -> DeviceSpec:
    """A description of a device of this machine."""
    here = local_device(device)
    try:
        spec = find_device(
            here.spec_name if here else torch.get_device_module(device).get_device_properties(device).name
        )
    except ValueError:  # not in the catalogue; plans use measured times, so another device's figures are good enough
        spec = CATALOGUE["A100-40GB"]
    return replace(spec, link_bandwidth=link_bandwidth(device), swap_seconds=swap_seconds(device))


def link_bandwidth(device: torch.device) -> float:
    """Bytes per second between pinned host memory and the device, the slower direction, the best of a few copies."""
    host = torch.empty(_BYTES, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(_BYTES, dtype=torch.uint8, device=device)
    best = [float("inf"), float("inf")]
    for _ in range(4):
        for way, (target, source) in enumerate(((host, there), (there, host))):
            torch.accelerator.synchronize()
            started = perf_counter()
            target.copy_(source, non_blocking=True)
            torch.accelerator.synchronize()
            best[way] = min(best[way], perf_counter() - started)
    return _BYTES / max(best)


def swap_seconds(device: torch.device) -> float:
    """The time that one swap takes on the program's own thread, the best of a few."""
    copier = Copier(device)
    best = float("inf")
    for _ in range(4):
        tensors = [torch.empty(1024, device=device) for _ in range(_SWAPS)]
        torch.accelerator.synchronize()
        started = perf_counter()
        for tensor in tensors:
            journey = copier.send(tensor)
            copier.await_sent(journey)
            copier.receive(journey)
        best = min(best, (perf_counter() - started) / _SWAPS)
    torch.accelerator.synchronize()
    return best
