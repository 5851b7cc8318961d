"""Attention with the rotary embeddings of rotary-embedding-torch."""

import torch
from rotary_embedding_torch import RotaryEmbedding
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.rotary, self.qkv, self.out = RotaryEmbedding(dim=16), nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        q, k = self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = Attention().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(16):
    x = torch.randn(4, int(torch.randint(16, 48, ())), 64).cuda()
    loss = (model(x) - x.cumsum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
