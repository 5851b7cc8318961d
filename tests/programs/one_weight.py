"""A tensor and SGD; there is no module."""

import torch

torch.manual_seed(0)
w = torch.randn(256, 256, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(30):
    x = torch.randn(64, 256, device="cuda")
    loss = (x @ w - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
