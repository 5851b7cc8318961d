"""Tells what torch says of memory after a fixed series of allocations."""

from __future__ import annotations

import torch
from sharing import share, tell

share()
KEYS = ("allocated_bytes", "allocation", "requested_bytes", "active_bytes", "active")


def figures() -> dict[str, int]:
    torch.cuda.synchronize()
    return {key: value for key, value in torch.cuda.memory_stats().items() if key.split(".")[0] in KEYS}


kept = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1, 512, 513, 3 << 20, (1 << 20) + 1)]
first = figures()
del kept[1:4]
temporary = torch.empty(9 << 20, dtype=torch.uint8, device="cuda")
del temporary
second = figures()
torch.cuda.reset_peak_memory_stats()
third = figures()
torch.cuda.reset_accumulated_memory_stats()
fourth = figures()
tell(
    figures=[first, second, third, fourth],
    allocated=torch.cuda.memory_allocated(),
    most=torch.cuda.max_memory_allocated(),
    ooms=torch.cuda.memory_stats()["num_ooms"],
)
