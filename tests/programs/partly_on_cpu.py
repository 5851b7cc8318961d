"""A model whose table of embeddings stays on the CPU."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.body = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.body(self.table(index).cuda())


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    index = torch.randint(0, 1000, (256,))
    optimizer.zero_grad()
    loss = (model(index) - 1).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
