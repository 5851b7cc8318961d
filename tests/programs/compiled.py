"""torch.compile around the model and around a function."""

import torch
from torch import nn

torch.manual_seed(0)
model = torch.compile(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


@torch.compile
def distance(a, b):
    return (a - b).square().mean()


for _ in range(20):
    x = torch.randn(64, 64, device="cuda")
    loss = distance(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
