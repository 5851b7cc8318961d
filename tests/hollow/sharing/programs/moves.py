"""Moves its memory, 60 MiB in three blocks, to the host and back whenever a line comes in."""

from __future__ import annotations

import sys

import torch
from sharing import native, share, tell

share()
blocks = [torch.zeros(20 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
torch.cuda.synchronize()
tell(ready=True)
for _ in sys.stdin:
    moved = native().evict(30.0)
    assert native().restore(30.0)
    tell(moved=moved)
