"""The job beside each program: it trains until it is ended, and prints a line per step."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10**9
model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.GELU()))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(steps):
    x = torch.randn(2048, 128, device="cuda")
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
