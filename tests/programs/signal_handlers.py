"""A time limit by SIGALRM, and a checkpoint that the handler of a timer saves, both in the middle of training."""

import io
import signal

import torch
from torch import nn


class TooLongError(Exception):
    pass


def give_up(*_: object) -> None:
    raise TooLongError


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
saved = []


def save(*_: object) -> None:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    saved.append(file.tell())
    model(torch.ones(4, 64, device="cuda")).sum().item()


signal.signal(signal.SIGALRM, save)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
for _ in range(100):
    x = torch.randn(512, 64, device="cuda")
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", loss.item().hex(), flush=True)
signal.setitimer(signal.ITIMER_REAL, 0)
print("saved", len(saved))
signal.signal(signal.SIGALRM, give_up)
for _ in range(5):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        while True:
            torch.ones(512, 512, device="cuda") @ torch.ones(512, 512, device="cuda")
    except TooLongError:
        pass
print("loss", (torch.ones(4, device="cuda") + 1).sum().item().hex())
