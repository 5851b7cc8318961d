"""Trains, then replaces itself with a new image of itself, twice, as programs do that change their environment."""

import os
import sys

import torch
from torch import nn

left = int(sys.argv[1]) if len(sys.argv) > 1 else 2
torch.manual_seed(left)
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(16):
    x = torch.randn(128, 64).cuda()
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", left, loss.item().hex(), flush=True)
if left:
    os.execv(sys.executable, [sys.executable, __file__, str(left - 1)])
