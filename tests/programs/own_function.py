"""An autograd function of one's own, hooks on modules and tensors, and anomaly detection."""

import torch
from torch import nn


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return gradient * (x.abs() < 1)


class Binary(nn.Module):
    def forward(self, x):
        return Straight.apply(x)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 128), Binary(), nn.Linear(128, 1)).cuda()
seen = []
model[0].register_forward_hook(lambda module, given, out: seen.append(out.detach().mean()))  # noqa: ARG005
model[2].register_full_backward_hook(lambda module, given, out: seen.append(out[0].norm()))  # noqa: ARG005
model[0].weight.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with torch.autograd.set_detect_anomaly(True):
    for _ in range(20):
        x = torch.randn(64, 32, device="cuda")
        loss = (model(x) - x[:, :1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("loss", loss.item().hex(), *(value.item().hex() for value in seen), flush=True)
        seen.clear()
