"""Asks for every number about memory, and trains meanwhile."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(16):
    torch.cuda.reset_peak_memory_stats()
    x = torch.randn(128, 256, device="cuda")
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.cuda.empty_cache()
    assert 0 < torch.cuda.memory_allocated() <= torch.cuda.max_memory_allocated() <= torch.cuda.max_memory_reserved()
    assert torch.cuda.memory_allocated() <= torch.cuda.memory_reserved()
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
    free, total = torch.cuda.mem_get_info()
    assert 0 <= free <= total == torch.cuda.get_device_properties(0).total_memory
    print("loss", loss.item().hex(), torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), flush=True)
assert "memory" in torch.cuda.memory_summary().lower()
torch.cuda.memory_snapshot()
