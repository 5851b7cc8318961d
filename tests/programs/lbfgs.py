"""LBFGS calls its closure several times a step, and its history grows."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-3, 3, 256).view(-1, 1).cuda()
y = x.sin()
model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, history_size=20, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    return loss


for _ in range(20):
    print("loss", optimizer.step(closure).item().hex(), flush=True)
