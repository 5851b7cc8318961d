"""A small physics-informed network: second derivatives by torch.func inside the loss."""

import torch
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(20):
    parameters = dict(net.named_parameters())

    def u(t, parameters=parameters):
        return functional_call(net, parameters, (t.view(1, 1),)).squeeze()

    t = torch.rand(32, device="cuda")
    residual = vmap(grad(grad(u)))(t) + vmap(u)(t)
    start = torch.zeros(1, device="cuda")
    loss = residual.square().mean() + (vmap(u)(start) - 1).square().mean() + vmap(grad(u))(start).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
