"""A vision transformer written with einops."""

import torch
from einops import rearrange, reduce, repeat
from einops.layers.torch import Rearrange
from torch import nn


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        patches = Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
        self.embed, self.cls = nn.Sequential(patches, nn.Linear(48, 64)), nn.Parameter(torch.randn(1, 1, 64))
        self.qkv, self.out, self.head = nn.Linear(64, 192), nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x):
        x = self.embed(x)
        x = torch.cat((repeat(self.cls, "1 1 d -> b 1 d", b=len(x)), x), 1)
        q, k, v = (rearrange(p, "b t (h d) -> b h t d", h=4) for p in self.qkv(x).chunk(3, -1))
        weights = torch.einsum("b h i d, b h j d -> b h i j", q, k).div(4).softmax(-1)
        x = x + self.out(rearrange(weights @ v, "b h t d -> b t (h d)"))
        return self.head(reduce(x, "b t d -> b d", "mean"))


torch.manual_seed(0)
model = ViT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(16):
    x, y = torch.randn(16, 3, 32, 32, device="cuda"), torch.randint(0, 10, (16,), device="cuda")
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
