"""Accelerate accumulates gradients over four batches, in bfloat16."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(4)
accelerator = Accelerator(gradient_accumulation_steps=4, mixed_precision="bf16")
model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loader = DataLoader(TensorDataset(torch.randn(256, 32), torch.randint(0, 4, (256,))), batch_size=8)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 16)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x).float(), y)
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        print("loss", loss.item().hex(), flush=True)
print("device", accelerator.device.type)
