"""Gaps between blocks in the chunks that a training job leases: at their worst in an iteration, and between iterations.

Salus's lanes are defragmented after each iteration, because nothing ephemeral outlives it. The arena gives empty chunks
back, so what is left between iterations are the gaps beside persistent blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from benchmarks._networks import NETWORKS, to_device

from neaptide.devices.soft import native
from neaptide.reporting.terminal.bench import Figure

MODELS = (("ResNet-50", 8), ("GPT-2", 16), ("LSTM", 64))
WARM = 4  # iterations


def figures() -> Iterator[Figure]:
    """Each network trains alone."""
    for name, batch in MODELS:
        yield from _gaps(name, batch)


def _gaps(name: str, batch: int) -> Iterator[Figure]:
    torch.manual_seed(0)
    chosen = NETWORKS[name]
    model = chosen.module().to("soft")
    optimizer = chosen.optimizer(model.parameters())
    *inputs, target = to_device(chosen.sample(batch))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        chosen.criterion(model(*inputs), target).backward()
        optimizer.step()

    for _ in range(WARM):
        step()
    torch.soft.synchronize()
    before = _gap(native.memory())
    with torch.soft.log_kernels(1 << 16):
        step()
        torch.soft.synchronize()
    inside = [(each.held_bytes - each.needed_bytes) / max(each.held_bytes, 1) for each in torch.soft.kernel_log()]
    yield Figure(f"{name}: gaps before an iteration, of what is leased", before, "")
    yield Figure(f"{name}: most gaps in the iteration, of what is leased", max(inside), "")
    yield Figure(f"{name}: gaps after the iteration, of what is leased", _gap(native.memory()), "")
    model.cpu()


def _gap(memory: dict[str, int]) -> float:
    return (memory["held"] - memory["needed"]) / max(memory["held"], 1)
