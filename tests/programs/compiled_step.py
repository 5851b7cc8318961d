"""A training step that is compiled as a whole, and an optimizer's step that is compiled by itself."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())


@torch.compile(backend="eager")
def step(x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


for _ in range(12):
    print("loss", step(torch.randn(256, 64, device="cuda")).item().hex(), flush=True)
update = torch.compile(optimizer.step, backend="aot_eager")
for _ in range(12):
    x = torch.randn(256, 64, device="cuda")
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    update()
    print("loss", loss.item().hex(), flush=True)
