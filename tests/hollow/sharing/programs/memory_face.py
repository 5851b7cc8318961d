"""Asks everything else of the allocator that programs ask."""

from __future__ import annotations

import torch
from sharing import agent, native, share, tell
from torch.multiprocessing.reductions import reduce_tensor

share()
facts: dict[str, object] = {}

block = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
segments = torch.cuda.memory_snapshot()
starts = {each["address"] for segment in segments for each in segment["blocks"] if each["state"] == "active_allocated"}
facts["snapshot"] = block.data_ptr() in starts
facts["reserved"] = sum(segment["total_size"] for segment in segments) == torch.cuda.memory_reserved()

torch.cuda.memory._record_memory_history()
again = torch.empty(5 << 20, dtype=torch.uint8, device="cuda")
address = again.data_ptr()
del again
actions = [each["action"] for each in torch.cuda.memory._snapshot()["device_traces"][0] if each["addr"] == address]
facts["history"] = actions
torch.cuda.memory._record_memory_history(enabled=None)

try:
    reduce_tensor(block)
except RuntimeError as error:
    facts["ipc"] = str(error).partition("\n")[0]

pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    pooled = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    where = pooled.data_ptr()
    del pooled
    pooled = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    facts["pool reuses"] = pooled.data_ptr() == where
elsewhere = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
del pooled
outside = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
facts["pool keeps"] = where not in (elsewhere.data_ptr(), outside.data_ptr())
held = agent().memory().held_bytes
del pool
torch.cuda.empty_cache()
facts["pool returns"] = held - agent().memory().held_bytes

torch.cuda.set_per_process_memory_fraction(0.01)
try:
    torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    facts["fraction"] = "set_per_process_memory_fraction" in str(error)
# 2 GiB: more than tensors have, and less with CUDA's context.
torch.cuda.set_per_process_memory_fraction(0.04)
facts["fraction leaves the context out"] = torch.empty(40 << 20, dtype=torch.uint8, device="cuda").numel()
facts["fraction is told"] = torch.cuda.get_per_process_memory_fraction()
torch.cuda.set_per_process_memory_fraction(1.0)

side = torch.cuda.Stream()
shared = torch.empty(6 << 20, dtype=torch.uint8, device="cuda")
address = shared.data_ptr()
with torch.cuda.stream(side):
    for _ in range(50):
        shared.add_(1)
shared.record_stream(side)
del shared
facts["recorded"] = torch.empty(6 << 20, dtype=torch.uint8, device="cuda").data_ptr() != address
torch.cuda.synchronize()
agent().check()
del block, elsewhere, outside
torch.cuda.empty_cache()
facts["empty"] = native().owned_bytes()
tell(**facts)
