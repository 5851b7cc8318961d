"""Ends with an exit code of its own."""

import sys

import torch

w = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(w.parameters(), lr=0.1)
for _ in range(12):
    loss = w(torch.ones(2, 8, device="cuda")).square().sum() * 0 + 1
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
sys.exit(7)
