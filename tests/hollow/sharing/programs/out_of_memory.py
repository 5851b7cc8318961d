"""Asks for more than the budget, catches the error, and goes on."""

from __future__ import annotations

import torch
from sharing import share, tell

share(job="greedy", budget_bytes=256 << 20)
small = torch.ones(1 << 20, device="cuda")
seen: list[tuple[int, ...]] = []
torch._C._cuda_attach_out_of_memory_observer(lambda *figures: seen.append(figures))
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    said = str(error)
small += 1
torch.cuda.synchronize()
tell(said=said, observed=len(seen), ooms=torch.cuda.memory_stats()["num_ooms"], goes_on=small.numel())
