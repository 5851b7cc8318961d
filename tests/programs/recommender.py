"""A recommender with EmbeddingBag over lists of different lengths."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(5000, 16, mode=mode) for mode in ("sum", "mean", "max"))
        self.mlp = nn.Sequential(nn.Linear(48 + 8, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, ids, offsets):
        return self.mlp(torch.cat([dense, *(bag(ids, offsets) for bag in self.bags)], 1))


torch.manual_seed(0)
model = Model().cuda()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
for _ in range(20):
    lengths = torch.randint(1, 10, (64,))
    offsets = torch.cat((torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1])).cuda()
    ids = torch.randint(0, 5000, (int(lengths.sum()),)).cuda()
    click = torch.randint(0, 2, (64, 1)).float().cuda()
    loss = nn.functional.binary_cross_entropy_with_logits(model(torch.randn(64, 8).cuda(), ids, offsets), click)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
