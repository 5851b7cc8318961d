"""A small GPT with the training loop that everybody copies: fused AdamW, compile, accumulation, resumed checkpoints."""

# ruff: noqa: NPY002 - as such programs are written
import inspect
import math
import os
import sys
import tempfile
from contextlib import nullcontext

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

device = sys.argv[2] if len(sys.argv) > 1 else "cuda"
named = len(sys.argv) > 1
dtype = "bfloat16" if named or (torch.cuda.is_available() and torch.cuda.is_bf16_supported()) else "float16"
batch_size, block_size, vocab, width, heads, gradient_accumulation_steps = 4, 16, 32, 32, 4, 2
np.random.seed(7)
torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
device_type = "cuda" if "cuda" in device else device
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type=device_type, dtype=ptdtype)
data = np.random.randint(0, vocab, 1024).astype(np.uint16)


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i : i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + block_size].astype(np.int64)) for i in ix])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (p.view(b, t, heads, c // heads).transpose(1, 2) for p in self.attn(self.ln1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(block_size, width)
        self.h = nn.ModuleList([Block() for _ in range(2)])
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device))
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


model = GPT()
model.to(device)
scaler = torch.amp.GradScaler(device_type, enabled=(dtype == "float16"))
use_fused = "fused" in inspect.signature(torch.optim.AdamW).parameters and device_type != "cpu"
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), **({"fused": True} if use_fused else {}))
if device_type == "cuda":
    model = torch.compile(model)
losses = []
X, Y = get_batch()
checkpoint_file = os.path.join(tempfile.mkdtemp(), "ckpt.pt")
for iter_num in range(6):
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * 0.5 * (1.0 + math.cos(math.pi * iter_num / 6))
    for _ in range(gradient_accumulation_steps):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item() * gradient_accumulation_steps)
    if iter_num == 2:
        checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": iter_num}
        torch.save(checkpoint, checkpoint_file)
        checkpoint = torch.load(checkpoint_file, map_location=device)
        model.load_state_dict({k.removeprefix("_orig_mod."): v for k, v in checkpoint["model"].items()})
        optimizer.load_state_dict(checkpoint["optimizer"])
        checkpoint = None
device = next(model.parameters()).device
