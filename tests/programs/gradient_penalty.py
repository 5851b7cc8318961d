"""WGAN-GP: five steps of the critic for one of the generator, and a penalty on the gradient's norm."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32)).cuda()
critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)).cuda()
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
for step in range(40):
    real, z = torch.randn(32, 32, device="cuda") + 1, torch.randn(32, 8, device="cuda")
    fake = generator(z)
    mix = torch.rand(32, 1, device="cuda")
    between = (mix * real + (1 - mix) * fake.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    loss = critic(fake.detach()).mean() - critic(real).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    print("loss", "critic", loss.item().hex(), flush=True)
    if step % 5 == 4:
        loss = -critic(fake).mean()
        of_generator.zero_grad()
        loss.backward()
        of_generator.step()
        print("loss", "generator", loss.item().hex(), flush=True)
