"""Takes and gives back memory TURNS times: one block of TIDE_MIB at a time, which it writes and reads."""

from __future__ import annotations

import os

import torch
from sharing import agent, share, tell

share(job=f"tide-{os.getpid()}", budget_bytes=int(os.environ["BUDGET_MIB"]) << 20)
mib, turns = int(os.environ["TIDE_MIB"]), int(os.environ["TURNS"])
wrong = 0
for turn in range(turns):
    block = torch.full((mib << 20,), turn % 251, dtype=torch.uint8, device="cuda")
    wrong += int(block[-1].item()) != turn % 251
    del block
torch.cuda.synchronize()
agent().check()
tell(wrong=wrong, turns=turns)
