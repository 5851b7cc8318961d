"""Modes of the program's own: a dispatch mode that counts, a function mode, saved-tensor hooks to the CPU."""

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Count(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


class Through(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())
counts = []
for _ in range(20):
    x = torch.randn(64, 64, device="cuda")
    with Count() as count, Through(), torch.autograd.graph.save_on_cpu():
        loss = (model(x) - x).square().mean()
        loss.backward()
    counts.append(count.count)
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item().hex(), flush=True)
assert len(set(counts)) == 1, counts
