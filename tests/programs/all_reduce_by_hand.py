"""Two spawned processes train on the device, and average their gradients through gloo on the CPU."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for step in range(20):
        x = torch.randn(32, 32).cuda()
        loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            gradient = parameter.grad.cpu()
            dist.all_reduce(gradient)
            parameter.grad.copy_(gradient / 2)
        optimizer.step()
        print(f"loss {rank} {step} {loss.item().hex()}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(f"{folder}/store",), nprocs=2)
