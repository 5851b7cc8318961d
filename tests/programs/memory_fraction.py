"""Takes at most a part of the device, and does not get more."""

import torch

free, total = torch.cuda.mem_get_info()
torch.cuda.set_per_process_memory_fraction((8 << 20) / total)
kept = torch.ones(4 << 18, device="cuda")  # 4 MiB
try:
    torch.ones(32 << 18, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("loss", "out of memory, as it should be", kept.sum().item().hex(), flush=True)
else:
    raise SystemExit("32 MiB were given where 8 MiB are allowed")
