"""Pinned memory and copies that do not block, both ways."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
staging = torch.empty(64, 512).pin_memory()
result = torch.empty((), pin_memory=True)
assert staging.is_pinned()
for _ in range(24):
    staging.copy_(torch.randn(64, 512))
    x = staging.to("cuda", non_blocking=True)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    result.copy_(loss.detach(), non_blocking=True)
    torch.cuda.synchronize()
    print("loss", result.item().hex(), flush=True)
