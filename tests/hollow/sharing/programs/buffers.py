"""Does what each line of its input says: `hold 100` takes so many MiB, `multiply` uses cuBLAS for the first time.

Tells after each line what is leased for memory that torch's allocator does not know of.
"""

from __future__ import annotations

import sys

import torch
from sharing import native, share, tell

share()
blocks = [torch.full((1,), 1, dtype=torch.uint8, device="cuda")]  # the first op of its kind, and the context
square = torch.full((16, 16), 1.0, device="cuda")
torch.cuda.synchronize()
tell(outside=native().outside_bytes())
for line in iter(sys.stdin.readline, ""):
    word, *sizes = line.split()
    if word == "hold":
        blocks.append(torch.full((int(sizes[0]) << 20,), 1, dtype=torch.uint8, device="cuda"))
    else:
        torch.mm(square, square)
    torch.cuda.synchronize()
    tell(outside=native().outside_bytes())
