"""torch.func: the gradient of each sample, by vmap over grad, and an update without an optimizer."""

import torch
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3)).cuda()
parameters = {name: value.detach() for name, value in model.named_parameters()}


def loss_of(parameters, x, y):
    logits = functional_call(model, parameters, (x.unsqueeze(0),))
    return torch.nn.functional.cross_entropy(logits, y.unsqueeze(0))


each = vmap(grad(loss_of), in_dims=(None, 0, 0))
for _ in range(20):
    x, y = torch.randn(16, 16, device="cuda"), torch.randint(0, 3, (16,), device="cuda")
    gradients = each(parameters, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    factor = (1.0 / norms).clamp(max=1.0)
    for name, g in gradients.items():
        clipped = (g * factor.view(-1, *[1] * (g.dim() - 1))).mean(0)
        parameters[name] = parameters[name] - 0.1 * clipped
    loss = vmap(loss_of, in_dims=(None, 0, 0))(parameters, x, y).mean()
    print("loss", loss.item().hex(), flush=True)
