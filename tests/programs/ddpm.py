"""A diffusion model: noise is predicted, an average of the weights is kept, and images are sampled."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
T = 50
beta = torch.linspace(1e-4, 0.02, T, device="cuda")
kept = torch.cumprod(1 - beta, 0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(T, 32)
        self.down, self.middle = nn.Conv2d(1, 32, 3, stride=2, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1), nn.Conv2d(33, 1, 3, padding=1)

    def forward(self, x, t):
        h = torch.relu(self.down(x)) + self.time(t)[:, :, None, None]
        h = torch.relu(self.up(torch.relu(self.middle(h))))
        return self.out(torch.cat((h, x), 1))


model = Net().cuda()
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(20):
    x, noise = torch.rand(16, 1, 28, 28, device="cuda"), torch.randn(16, 1, 28, 28, device="cuda")
    t = torch.randint(0, T, (16,), device="cuda")
    a = kept[t].view(-1, 1, 1, 1)
    loss = (model(a.sqrt() * x + (1 - a).sqrt() * noise, t) - noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, theirs in zip(average.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 0.1)
    print("loss", loss.item().hex(), flush=True)
with torch.no_grad():
    x = torch.randn(4, 1, 28, 28, device="cuda")
    for t in reversed(range(T)):
        guess = average(x, torch.full((4,), t, device="cuda"))
        x = (x - beta[t] / (1 - kept[t]).sqrt() * guess) / (1 - beta[t]).sqrt()
        x = x + beta[t].sqrt() * torch.randn_like(x) * (t > 0)
print("loss", x.sum().item().hex())
