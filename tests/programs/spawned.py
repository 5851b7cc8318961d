"""mp.spawn starts two processes, and each trains on the device."""

import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank):
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(24):
        x = torch.randn(64, 64, device="cuda")
        loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {rank} {step} {loss.item().hex()}\n", end="", flush=True)


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
