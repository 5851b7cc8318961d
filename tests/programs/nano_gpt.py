"""A small GPT in the manner of nanoGPT: accumulation, clipping, a cosine schedule, and sampling at the end."""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1337)
width, block = 96, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (p.view(b, t, 4, c // 4).transpose(1, 2) for p in self.attn(self.ln1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(65, width), nn.Embedding(block, width)
        self.h, self.ln, self.head = (
            nn.Sequential(*(Block() for _ in range(3))),
            nn.LayerNorm(width),
            nn.Linear(width, 65),
        )
        self.head.weight = self.wte.weight

    def forward(self, ids, targets=None):
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1), device=ids.device))
        logits = self.head(self.ln(self.h(x)))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


data = torch.randint(0, 65, (4096,))
model = GPT().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
for step in range(16):
    for group in optimizer.param_groups:
        group["lr"] = 5e-4 * (1 + math.cos(math.pi * step / 16))
    for _ in range(2):
        at = torch.randint(len(data) - block, (8,))
        x, y = (
            torch.stack([data[i + k : i + k + block] for i in at]).pin_memory().to("cuda", non_blocking=True)
            for k in (0, 1)
        )
        loss = model(x, y)[1] / 2
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("loss", loss.item().hex(), flush=True)
model.eval()
ids = torch.zeros(1, 1, dtype=torch.long, device="cuda")
with torch.no_grad():
    for _ in range(30):
        chance = model(ids[:, -block:])[0][:, -1].softmax(-1)
        ids = torch.cat((ids, torch.multinomial(chance, 1)), 1)
print("loss", *ids[0].tolist())
