"""A model that is saved and evaluated when the program ends, by a handler that was registered before it was made."""

import atexit
import io

import torch
from torch import nn


def save() -> None:
    torch.save(model.state_dict(), io.BytesIO())
    print("loss", model(torch.ones(4, 64, device="cuda")).sum().item().hex(), flush=True)


atexit.register(save)
torch.manual_seed(0)
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    loss = model(torch.ones(4, 64, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
