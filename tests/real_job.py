"""A real training or serving as a program: what it computes depends on its arguments alone.

python real_job.py NETWORK BATCH STEPS [train|serve] [GROWS_AT]. From step GROWS_AT on the batch is twice as large. The
program reads a line once it was measured. It prints a line per step, then a digest of all losses (or answers) and
parameters, and the most memory that it held.
"""

from __future__ import annotations

import hashlib
import os
import sys

import torch
from torch import Tensor

import neaptide
from neaptide.models import Workload, build

DEADLINE_SECONDS = 0.5
PAUSE = 9  # the step before which the program reads a line; the first eight are measured


def train(work: Workload, inputs: list[Tensor], target: Tensor) -> Tensor:
    work.optimizer.zero_grad(set_to_none=True)
    loss = work.criterion(work.model(*inputs), target)
    loss.backward()
    work.optimizer.step()
    return loss.detach()


def serve(work: Workload, inputs: list[Tensor], _: Tensor) -> Tensor:
    with torch.no_grad():
        answer: Tensor = work.model(*inputs)
    return answer


def main(network: str, batch: int, steps: int, what: str = "train", grows_at: int | None = None) -> None:
    if what == "serve" and "NEAPTIDE_SOCKET" in os.environ:
        neaptide.attach(kind="inference", deadline_seconds=DEADLINE_SECONDS)
    from neaptide.devices.soft.torch_module.memory import max_memory_reserved

    torch.manual_seed(0)
    work = build(network, batch, "tiny", "soft")
    work.model.train(what == "train")
    step = {"train": train, "serve": serve}[what]
    seen = hashlib.sha256()
    for index in range(steps):
        if index == PAUSE:
            sys.stdin.readline()
        torch.manual_seed(index + 1)
        size = batch if grows_at is None or index < grows_at else 2 * batch
        *inputs, target = [tensor.to("soft") for tensor in work.sample(size)]
        seen.update(step(work, inputs, target).cpu().numpy().tobytes())
        print(index, flush=True)
    for parameter in work.model.parameters():
        seen.update(parameter.detach().cpu().numpy().tobytes())
    print(seen.hexdigest(), max_memory_reserved(), flush=True)


if __name__ == "__main__":
    network, batch, steps, *more = sys.argv[1:]
    main(network, int(batch), int(steps), *more[:1], *map(int, more[1:]))
