"""flex_attention with a causal mask and a bias, uncompiled."""

import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 16).permute(2, 0, 3, 1, 4)
        y = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - 0.1 * (i - j), block_mask=mask)  # noqa: ARG005
        return self.out(y.transpose(1, 2).reshape(b, t, c))


torch.manual_seed(0)
mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 64, 64, device="cuda")  # noqa: ARG005
model = Attention().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(12):
    x = torch.randn(2, 64, 32, device="cuda")
    loss = (model(x, mask) - x.roll(1, 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
