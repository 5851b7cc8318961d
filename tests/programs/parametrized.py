"""Spectral norm, weight norm and a parametrization of one's own."""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).T


torch.manual_seed(0)
square = nn.Linear(64, 64)
parametrize.register_parametrization(square, "weight", Symmetric())
model = nn.Sequential(
    parametrizations.spectral_norm(nn.Linear(32, 64)), nn.ReLU(), square, parametrizations.weight_norm(nn.Linear(64, 1))
).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(20):
    x = torch.randn(64, 32, device="cuda")
    loss = (model(x) - x.norm(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
