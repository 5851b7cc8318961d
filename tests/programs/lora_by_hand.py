"""Low-rank adapters around frozen layers, written by hand."""

import torch
from torch import nn


class LoRA(nn.Module):
    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, layer.in_features) * 0.01)
        self.b = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + x @ self.a.T @ self.b.T


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(128, 64), LoRA(nn.Linear(64, 256)), nn.GELU(), LoRA(nn.Linear(256, 128))).cuda()
model[0].requires_grad_(False)
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-3)
for _ in range(24):
    ids = torch.randint(0, 128, (16, 32), device="cuda")
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.roll(-1, 1).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
