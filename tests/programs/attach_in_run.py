"""A program that calls neaptide.attach and is started by neaptide too."""

import neaptide

neaptide.attach(iterations=24)

import torch  # noqa: E402
from torch import nn  # noqa: E402

torch.manual_seed(0)
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(24):
    x = torch.randn(64, 64).cuda()
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
