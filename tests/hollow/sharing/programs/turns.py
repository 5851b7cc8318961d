"""Takes TIDE_MIB for a moment whenever a line comes in: says what the memory held, and what pages cost so far.

A line that is a number is written to all of the memory; an empty line leaves it as it is.
"""

from __future__ import annotations

import os
import sys

import torch
from sharing import agent, native, share, tell

share(job=f"turns-{os.getpid()}", budget_bytes=int(os.environ["BUDGET_MIB"]) << 20)
size = int(os.environ["TIDE_MIB"]) << 20
torch.zeros(1, device="cuda")
tell(ready=True, outside_bytes=native().outside_bytes())
for line in sys.stdin:
    block = torch.empty(size, dtype=torch.uint8, device="cuda")
    found = int(block.cpu().max())
    if line.strip():
        block.fill_(int(line))
    torch.cuda.synchronize()
    del block
    torch.cuda.empty_cache()
    agent().check()
    tell(
        found=found,
        owned_bytes=native().owned_bytes(),
        outside_bytes=native().outside_bytes(),
        **native().page_calls(),
    )
