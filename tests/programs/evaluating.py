"""Evaluates after every few steps, in batches of another size, and keeps the best."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10))
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
best, kept = float("inf"), None
for step in range(30):
    model.train()
    x, y = torch.randn(32, 1, 14, 14).cuda(), torch.randint(0, 10, (32,)).cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
    if step % 6 == 5:
        model.eval()
        with torch.no_grad():
            losses = [
                nn.functional.cross_entropy(model(torch.randn(100, 1, 14, 14).cuda()), y.repeat(4)[:100])
                for _ in range(4)
            ]
        total = torch.stack(losses).mean().item()
        print("loss", "evaluated", total.hex(), flush=True)
        if total < best:
            best, kept = total, copy.deepcopy(model.state_dict())
