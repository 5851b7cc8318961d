"""Two threads of one program train a model each."""

import threading

import torch
from torch import nn

errors = []


def train(name, width):
    try:
        generator = torch.Generator().manual_seed(width)
        model = nn.Sequential(nn.Linear(32, width, bias=False), nn.Tanh(), nn.Linear(width, 1, bias=False))
        for parameter in model.parameters():
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) / 8)
        model.cuda()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for step in range(40):
            x = torch.randn(128, 32, generator=generator).cuda()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"loss {name} {step} {loss.item().hex()}\n", end="", flush=True)  # one write: threads print at once
    except BaseException as error:
        errors.append(error)
        raise


threads = [threading.Thread(target=train, args=(f"thread{width}", width)) for width in (128, 256)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
raise SystemExit(len(errors))
