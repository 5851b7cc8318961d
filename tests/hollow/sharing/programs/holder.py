"""Holds TIDE_MIB until its input ends."""

from __future__ import annotations

import os
import sys

import torch
from sharing import share, tell

share(job="holder", budget_bytes=int(os.environ["BUDGET_MIB"]) << 20)
block = torch.ones(int(os.environ["TIDE_MIB"]) << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
tell(holds=block.numel())
sys.stdin.read()
