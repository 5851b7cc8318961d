"""Holds memory on a board without a daemon, so that it can be evicted and restored: python -m ... BOARD BYTES.

It says what it holds, and after each line of its input whether that is still what it wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter

import msgspec
import torch
from torch import Tensor

from neaptide.devices import DeviceAgent, chosen_device, find_kind
from neaptide.verification.facts import Check, Holding

_BLOCKS = 4


def main(board: str, size_bytes: str) -> None:
    """Hold, and answer."""
    agents: list[DeviceAgent] = []
    chosen = chosen_device()
    kind = find_kind(chosen.kind)

    def first_use() -> None:
        agents.append(kind.attach(Path(board), "holder", chosen.index))
        agents[0].release_launches()

    device = torch.device(kind.prepare(first_use))
    generator = torch.Generator().manual_seed(2)
    shape = (int(size_bytes) // _BLOCKS,)
    patterns = [torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator) for _ in range(_BLOCKS)]
    blocks = [pattern.to(device) for pattern in patterns]
    torch.accelerator.synchronize()
    out, back = _copy_rates(blocks[0])
    _say(Holding(agents[0].slot, agents[0].memory().held_bytes, out, back))
    for _ in sys.stdin:
        wrong = sum(not torch.equal(block.cpu(), pattern) for block, pattern in zip(blocks, patterns, strict=True))
        _say(Check(wrong))


def _copy_rates(block: Tensor) -> tuple[float, float]:
    """Bytes per second of a plain copy to pinned memory, and back; the second copy of each is timed."""
    host = torch.empty(block.shape, dtype=block.dtype, pin_memory=True)
    return _rate(host, block), _rate(block.clone(), host)


def _rate(to: Tensor, source: Tensor) -> float:
    to.copy_(source, non_blocking=True)
    torch.accelerator.synchronize()
    began = perf_counter()
    to.copy_(source, non_blocking=True)
    torch.accelerator.synchronize()
    return source.numel() / (perf_counter() - began)


def _say(fact: msgspec.Struct) -> None:
    sys.stdout.write(msgspec.json.encode(fact).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
