"""Catches the out-of-memory error and tries again with half the batch, until it fits."""

import torch
from torch import nn

total = torch.cuda.get_device_properties(0).total_memory
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(batch):
    x = torch.ones(batch, 256, device="cuda")
    loss = (model(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


batch = total // 256  # far too much: its input alone has four times the memory of the device
while True:
    try:
        train(batch)
        break
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        batch //= 2
assert 16 <= batch < total // 1024, batch
model.load_state_dict({name: torch.full_like(value, 0.01) for name, value in model.state_dict().items()})
for _ in range(16):
    print("loss", train(64).hex(), flush=True)
