"""Launches a few kernels and then waits for memory that another process holds."""

from __future__ import annotations

import os

from sharing import share, tell

share("waits", int(os.environ["BUDGET_MIB"]) << 20)

import torch  # noqa: E402 - after the process was prepared

values = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
for _ in range(7):
    values.fill_(1)
torch.cuda.synchronize()
tell(launched=True)
torch.empty(int(os.environ["TIDE_MIB"]) << 20, dtype=torch.uint8, device="cuda")
tell(ended=True)
