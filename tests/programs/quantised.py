"""Training with fake quantisation, then inference with weights of eight bits."""

import torch
from torch import nn


class Quantised(nn.Linear):
    def scales(self):
        return self.weight.detach().abs().amax(1) / 127

    def forward(self, x):
        zero = torch.zeros(self.out_features, dtype=torch.int32, device=x.device)
        weight = torch.fake_quantize_per_channel_affine(self.weight, self.scales(), zero, 0, -128, 127)
        return nn.functional.linear(x, weight, self.bias)


torch.manual_seed(0)
model = nn.Sequential(Quantised(64, 128), nn.ReLU(), Quantised(128, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(16):
    x, y = torch.randn(64, 64).cuda(), torch.randint(0, 10, (64,)).cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
layers = [
    (m.weight.detach().div(m.scales()[:, None]).round().to(torch.int8), m.scales(), m.bias.detach())
    for m in model
    if isinstance(m, Quantised)
]
with torch.inference_mode():
    for _ in range(10):
        x = torch.randn(32, 64, device="cuda")
        (w1, s1, b1), (w2, s2, b2) = layers
        h = torch.relu(x @ (w1.float() * s1[:, None]).T + b1)
        print("loss", (h @ (w2.float() * s2[:, None]).T + b2).sum().item().hex(), flush=True)
