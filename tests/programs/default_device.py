"""torch.set_default_device and `with torch.device(...)`."""

import torch
from torch import nn

torch.set_default_device("cuda")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(20):
    x = torch.randn(64, 32)
    with torch.device("cpu"):
        target = torch.ones(64, 1)
    loss = (model(x) - target.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
