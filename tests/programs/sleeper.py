"""Trains a little, sleeps, and trains on."""

import time

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(24):
    if step in (3, 14):
        time.sleep(4)
    x = torch.randn(64, 256).cuda()
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
