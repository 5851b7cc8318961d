"""Four models as one, by stack_module_state and vmap; the stacked parameters are trained."""

import copy

import torch
from torch.func import functional_call, stack_module_state, vmap

torch.manual_seed(0)
models = [
    torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda() for _ in range(4)
]
parameters, buffers = stack_module_state(models)
skeleton = copy.deepcopy(models[0]).to("meta")
optimizer = torch.optim.Adam(parameters.values(), lr=1e-2)


def call(parameters, buffers, x):
    return functional_call(skeleton, (parameters, buffers), (x,))


for _ in range(24):
    x = torch.randn(64, 16, device="cuda")
    loss = (vmap(call, in_dims=(0, 0, None))(parameters, buffers, x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
