"""TorchScript: a traced and a scripted model."""

import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
for made in (torch.jit.trace(model, torch.ones(4, 32, device="cuda")), torch.jit.script(model)):
    optimizer = torch.optim.SGD(made.parameters(), lr=0.05)
    for _ in range(16):
        x = torch.randn(32, 32, device="cuda")
        loss = (made(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item().hex(), flush=True)
