"""Gradient descent by hand: no module and no optimizer."""

import torch

torch.manual_seed(0)
w = (torch.randn(256, 256, device="cuda") / 16).requires_grad_()
for _ in range(60):
    x = torch.randn(64, 256, device="cuda")
    loss = (x @ w - x).square().mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    print("loss", loss.item().hex(), flush=True)
