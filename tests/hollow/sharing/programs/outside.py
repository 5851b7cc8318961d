"""Takes memory that torch's allocator does not know of."""

from __future__ import annotations

import ctypes

import torch
from sharing import native, share, tell

share(budget_bytes=1 << 30)
torch.zeros(1, device="cuda")
before = native().outside_bytes()
runtime, address = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
assert runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(100 << 20)) == 0
native().count_outside()
during = native().outside_bytes()
assert runtime.cudaFree(address) == 0
while native().outside_bytes() > before:  # it may come again, so it is kept for a while
    native().count_outside()
native().check_memory()
used, _, capacity = native().board_memory()
tell(allowance=before, taken=during - before, back=native().outside_bytes() - before, used=used, capacity=capacity)
