"""Accelerate's search for a batch that fits: it halves the batch whenever memory runs out."""

import torch
from accelerate.utils import find_executable_batch_size
from torch import nn


@find_executable_batch_size(starting_batch_size=1 << 17)
def train(batch: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        x = torch.randn(batch, 64, device="cuda")
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()
    print("batch", batch)


torch.cuda.set_per_process_memory_fraction((24 << 20) / torch.cuda.mem_get_info()[1])
train()
torch.manual_seed(0)
print("loss", torch.randn(4, device="cuda").sum().item().hex(), flush=True)
