"""Trains a small network on cuda, as a user's program would; it knows nothing of neaptide."""

from __future__ import annotations

import sys

import torch

width, steps = int(sys.argv[1]), int(sys.argv[2])
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(8)])
model = model.to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(steps):
    loss = model(torch.randn(2048, width, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
print(f"trained {steps} steps, most {torch.cuda.max_memory_allocated() >> 20} MiB")
