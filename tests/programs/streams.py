"""A stream that prefetches, events that time, and a second stream that computes."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
copying, side = torch.cuda.Stream(), torch.cuda.Stream()
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
batches = [torch.randn(64, 256).pin_memory() for _ in range(20)]


def prefetch(batch):
    with torch.cuda.stream(copying):
        return batch.cuda(non_blocking=True)


ahead = prefetch(batches[0])
for number in range(20):
    torch.cuda.current_stream().wait_stream(copying)
    x = ahead
    x.record_stream(torch.cuda.current_stream())
    if number + 1 < 20:
        ahead = prefetch(batches[number + 1])
    begin.record()
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    end.record()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        norm = model.weight.detach().norm()
    side.synchronize()
    end.synchronize()
    assert begin.elapsed_time(end) >= 0
    torch.cuda.current_stream().wait_stream(side)
    print("loss", loss.item().hex(), norm.item().hex(), flush=True)
