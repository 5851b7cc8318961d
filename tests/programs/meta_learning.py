"""MAML: gradients of gradients, with inner steps by hand."""

import torch
from torch.func import functional_call

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1, 40), torch.nn.ReLU(), torch.nn.Linear(40, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(3):
        shift = torch.rand((), device="cuda") * 3
        weights = dict(model.named_parameters())
        for _ in range(2):
            x = torch.randn(10, 1, device="cuda")
            loss = (functional_call(model, weights, (x,)) - (x + shift).sin()).square().mean()
            gradients = torch.autograd.grad(loss, tuple(weights.values()), create_graph=True)
            weights = {n: w - 0.05 * g for (n, w), g in zip(weights.items(), gradients, strict=True)}
        x = torch.randn(10, 1, device="cuda")
        outer = (functional_call(model, weights, (x,)) - (x + shift).sin()).square().mean()
        outer.backward()
        total += outer.item()
    optimizer.step()
    print("loss", total.hex(), flush=True)
