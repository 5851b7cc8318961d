"""Trains until its input ends, and reads at every step what copies and fills wrote; it knows nothing of neaptide.

With the word `late` another library takes its buffers after some steps, not after the same ones in all processes. With
the word `nursery` it imports torch and makes a child of itself for each line of its input instead, which trains until
it is killed: so hundreds of jobs start without hundreds of imports.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

import torch

_BLOCK_BYTES = 2 << 20
_FILL = 173


def train_late(width: int, batch: int) -> None:
    """Use another library from some step on."""
    train(width, batch, late=4 + os.getpid() % 4)


def train(width: int, batch: int, late: int = -1) -> None:
    """Print the number of every step, and at the end how many blocks were wrong."""
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pattern = torch.randint(0, 256, (_BLOCK_BYTES,), dtype=torch.uint8)
    copied, filled = pattern.to("cuda"), torch.full((_BLOCK_BYTES,), _FILL, dtype=torch.uint8, device="cuda")
    wrong = step = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        model(torch.ones(batch, width, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        wrong += not torch.equal(copied.cpu(), pattern)
        wrong += not bool((filled.cpu() == _FILL).all())
        step += 1
        if step == late:
            torch.nn.Conv2d(1, 1, 3, device="cuda")(torch.ones(1, 1, 8, 8, device="cuda")).sum().backward()
        print(step, flush=True)
    print(json.dumps({"wrong": wrong, "steps": step}), flush=True)


def bring_up(width: int, batch: int) -> None:
    """Print the process of each child."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in iter(sys.stdin.readline, ""):
        if (child := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            nothing, _ = os.pipe()
            os.dup2(nothing, 0)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            train(width, batch)
            os._exit(0)
        print(child, flush=True)


what, *sizes = sys.argv[1:]
{"train": train, "late": train_late, "nursery": bring_up}[what](*map(int, sizes))
