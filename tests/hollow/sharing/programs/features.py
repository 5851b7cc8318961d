"""Uses what programs use of CUDA, and tells what torch says of memory after each; SHARED=0: with its own allocator."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch
from sharing import share, tell
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

share()
KEYS = ("requested_bytes.all.current", "requested_bytes.all.peak", "allocation.all.allocated", "allocation.all.freed")
MODEL = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(4)]


def model() -> torch.nn.Sequential:
    return torch.nn.Sequential(*MODEL).to("cuda")


def train() -> None:
    layers = model()
    optimizer = torch.optim.AdamW(layers.parameters())
    for _ in range(3):
        layers(torch.ones(512, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def mixed_precision() -> None:
    layers = model()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        layers(torch.ones(512, 256, device="cuda")).sum().backward()


def checkpointing() -> None:
    value = torch.ones(512, 256, device="cuda", requires_grad=True)
    for layer in model():
        value = checkpoint(layer, value, use_reentrant=False)
    value.sum().backward()


def pinned_loader() -> int:
    loader = DataLoader(TensorDataset(torch.arange(4096.0).reshape(64, 64)), batch_size=16, pin_memory=True)
    moved = [batch.to("cuda", non_blocking=True) for (batch,) in loader]
    torch.cuda.synchronize()
    return int(sum(batch.cpu().double().sum().item() for batch in moved))


def streams_and_events() -> bool:
    side, begin, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    source = torch.full((1 << 20,), 7, dtype=torch.uint8, device="cuda")
    begin.record()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        copy = source.clone()
        source.record_stream(side)
    del source
    torch.cuda.current_stream().wait_stream(side)
    end.record()
    end.synchronize()
    return bool((copy.cpu() == 7).all()) and begin.elapsed_time(end) >= 0


def pool() -> None:
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        blocks = [torch.empty(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
    del blocks


def graph() -> None:
    source, captured = torch.ones(1 << 16, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = source + 1
    for _ in range(3):
        captured.replay()
    torch.cuda.synchronize()
    del result


def device_memory() -> bool:
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return 0 < free_bytes < total_bytes == torch.cuda.get_device_properties(0).total_memory


FEATURES: tuple[Callable[[], object], ...] = (
    train,
    mixed_precision,
    checkpointing,
    pinned_loader,
    streams_and_events,
    pool,
    graph,
    device_memory,
)
told: dict[str, object] = {}
for feature in FEATURES:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    answer = feature()
    gc.collect()
    torch.cuda.synchronize()
    torch.empty(1, device="cuda")  # torch's own allocator looks at recorded streams when it allocates
    stats = torch.cuda.memory_stats()
    told[feature.__name__] = [answer, *(stats[key] for key in KEYS)]
tell(**told)
