"""DataParallel around a model, as old scripts have it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.DataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(20):
    x, y = torch.randn(64, 64).cuda(), torch.randint(0, 8, (64,)).cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
