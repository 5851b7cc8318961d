"""Launches ops whatever is asked of it, and tells how many of them counted."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import torch
from sharing import agent, native, share, tell

from neaptide.devices import Board
from neaptide.devices.board import SlotState

share()
block, there = torch.zeros(64, 64, device="cuda"), torch.zeros(4)
board = Board.open(Path(os.environ["BOARD"]))
MODEL = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).to("cuda")


def counted(*ops: object) -> list[int]:
    """How many launches each op was counted as, while arguments are shown and while they are not."""
    counts = []
    for op in ops:
        assert callable(op)
        before = agent().launched()
        op()
        counts.append(agent().launched() - before)
    return counts


OPS = (
    lambda: block.add_(1),
    lambda: block + 1,
    lambda: torch.nn.functional.linear(block, block),
    lambda: block.view(-1)[3:].unsqueeze(0).detach(),
    lambda: block.t().contiguous(),
    lambda: torch.randperm(7),
    lambda: there.fill_(3).sort(),
)


def train() -> None:
    """An iteration of a small network, with its backward pass on a thread of torch's own."""
    loss = MODEL(torch.ones(4, 64, device="cuda")).square().mean()
    loss.backward()
    MODEL.zero_grad()


def counts() -> None:
    """Counts are the same in both ways of looking."""
    train()
    with agent().log_kernels(1000):
        logged = counted(*OPS, train)
    block.add_(1)
    tell(logged=logged, free=counted(*OPS, train))


def work_on_the_host() -> None:
    """Host work after an iteration was armed does not wait for its permit; the first launch does."""
    block.add_(1)
    there.add_(1)
    board.set_permit(agent().slot, 0)
    agent().arm_iteration()
    there.add_(1)
    launched = threading.Event()

    def launch() -> None:
        block.add_(1)
        launched.set()

    thread = threading.Thread(target=launch)
    thread.start()
    while board.snapshot().slots[0].state is not SlotState.WAITING_PERMIT:
        time.sleep(0.001)
    before = launched.is_set()
    board.set_permit(agent().slot, 1)
    thread.join()
    tell(host=float(there[0]), before=before, begun=native().iterations_begun())


def launches() -> None:
    """So many ops as the line says."""
    torch.cuda.synchronize()
    tell(ready=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            block.add_(1)
        torch.cuda.synchronize()
        native().flush()
        torch.cuda.synchronize()
        tell(launched=agent().launched())


{"counts": counts, "host": work_on_the_host, "launches": launches}[os.environ["CASE"]]()
