"""Takes MIB from CUDA itself, which torch's allocator does not know of, and keeps it until its input ends."""

from __future__ import annotations

import ctypes
import os
import sys

import torch
from sharing import native, share, tell

share()
torch.zeros(1, device="cuda")
before = native().outside_bytes()
address = ctypes.c_void_p()
size = ctypes.c_size_t(int(os.environ["MIB"]) << 20)
assert ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(address), size) == 0
native().count_outside()  # as at the end of an iteration
tell(before=before, outside=native().outside_bytes())
sys.stdin.read()
