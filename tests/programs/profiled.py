"""torch.profiler with a schedule, around the loop."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())
tables = []
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=1, warmup=1, active=3, repeat=2),
    on_trace_ready=lambda p: tables.append(p.key_averages().table(row_limit=3)),
    profile_memory=True,
) as profiler:
    for _ in range(20):
        x = torch.randn(64, 64, device="cuda")
        with record_function("forward"):
            loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        profiler.step()
        print("loss", loss.item().hex(), flush=True)
assert len(tables) == 2
