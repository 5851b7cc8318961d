"""Automatic mixed precision as its recipe shows it: autocast, a gradient scaler, clipping, both spellings."""

import sys

import torch
from torch import nn

device = sys.argv[2] if len(sys.argv) > 1 else "cuda"
torch.manual_seed(0)
net = nn.Sequential(
    nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 8)
)
net = net.to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
scaler = torch.cuda.amp.GradScaler() if device == "cuda" else torch.amp.GradScaler(device)
newer = torch.amp.GradScaler(device)
losses = []
for step in range(8):
    x = torch.randn(16, 32, device=device)
    y = torch.randn(16, 8, device=device)
    chosen = scaler if step < 4 else newer
    with torch.autocast(device_type=device, dtype=torch.float16 if step % 2 else torch.bfloat16):
        out = net(x)
        assert out.dtype == (torch.float16 if step % 2 else torch.bfloat16)
        loss = nn.functional.mse_loss(out, y)
    chosen.scale(loss).backward()
    chosen.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    chosen.step(opt)
    chosen.update()
    opt.zero_grad(set_to_none=True)
    losses += [loss.item(), chosen.get_scale()]
device = next(net.parameters()).device
