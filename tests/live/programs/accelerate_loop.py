"""Accelerate's loop: prepare, accumulate, backward; the device is whatever it finds."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=len(sys.argv) > 1, gradient_accumulation_steps=2)
set_seed(9)
model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(torch.randn(32, 12), torch.randint(0, 4, (32,))), batch_size=8, shuffle=True)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
losses = []
for _ in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
device = accelerator.device
if device.type == "cuda":  # half precision, which it allows on GPUs only
    accelerator.free_memory()
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)
    half = Accelerator(mixed_precision="fp16")
    model, optimizer = half.prepare(nn.Linear(4, 4), torch.optim.SGD(model.parameters(), lr=0.1))
    with half.autocast():
        assert model(torch.randn(2, 4, device=half.device)).device.type == "cuda"
    AcceleratorState._reset_state(True)
