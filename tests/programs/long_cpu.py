"""Moves its model to the device, and then works on the CPU for long before it trains."""

import hashlib

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(64, 64).cuda()
probe = model(torch.ones(4, 64, device="cuda")).sum().item()  # a first try of the model
print("loss", probe.hex(), flush=True)
word = b"neaptide"
for _ in range(6_000_000):  # the tokeniser
    word = hashlib.md5(word).digest()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(20):
    x = torch.randn(64, 64).cuda()
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
