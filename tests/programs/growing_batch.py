"""The batch grows in the middle of the training, as with a curriculum."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(40):
    batch = 64 if step < 12 else 512 if step < 28 else 1024
    x = torch.randn(batch, 256, device="cuda")
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
