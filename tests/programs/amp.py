"""Automatic mixed precision with a gradient scaler, both old and new spelling."""

import warnings

import torch
from torch import nn

warnings.simplefilter("ignore", FutureWarning)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 256, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for autocast, scaler in (
    (lambda: torch.autocast("cuda", torch.float16), torch.amp.GradScaler("cuda", init_scale=1024)),
    (lambda: torch.cuda.amp.autocast(dtype=torch.bfloat16), torch.cuda.amp.GradScaler(enabled=False)),
):
    for _ in range(12):
        x, y = torch.randn(16, 3, 16, 16, device="cuda"), torch.randint(0, 10, (16,), device="cuda")
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print("loss", loss.item().hex(), flush=True)
