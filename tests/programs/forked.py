"""A fork before the device is used: parent and child train after it."""

import os

import torch
from torch import nn

child = os.fork()
name = "parent" if child else "child"
torch.manual_seed(len(name))
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    x = torch.randn(32, 64, device="cuda")
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {name} {loss.item().hex()}\n", end="", flush=True)
if child:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0)
