"""Activation checkpointing around the outermost modules, with use_reentrant=True."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = nn.ModuleList(
    nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64)) for _ in range(4)
)
blocks.cuda()
optimizer = torch.optim.AdamW(blocks.parameters(), lr=1e-3)
for _ in range(20):
    x = target = torch.randn(128, 64, device="cuda", requires_grad=True)
    for block in blocks:
        x = x + checkpoint(block, x, use_reentrant=True)
    loss = (x - 2 * target.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
