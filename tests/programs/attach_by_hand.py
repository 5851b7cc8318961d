"""A program that was not started by neaptide, and attaches itself."""

import torch
from torch import nn

import neaptide

neaptide.attach("by-hand", priority=1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(24):
    x = torch.randn(64, 32).cuda()
    loss = (model(x) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
