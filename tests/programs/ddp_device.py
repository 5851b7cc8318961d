"""DistributedDataParallel over gloo, with the model on the device."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(16, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(12):
        loss = (model(torch.full((4, 16), 0.1 * (rank + 1), device="cuda")) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {rank} {step} {loss.item().hex()}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(f"{folder}/store",), nprocs=2)
