"""One training run of a small model, the same on any device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from neaptide.models import build

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": partial(torch.optim.SGD, lr=0.01, momentum=0.9, foreach=True),
    "adamw": partial(torch.optim.AdamW, lr=1e-3, foreach=True),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What a run ended with."""

    losses: list[Tensor]
    parameters: list[Tensor]


def train(
    name: str,
    device: str,
    optimizer: str = "sgd",
    steps: int = 8,
    between: Callable[[int], None] = lambda _: None,
    side_stream: torch.Stream | None = None,
) -> Run:
    """Train from fixed seeds. `between` is called after each step; inputs are copied on `side_stream` if given."""
    torch.manual_seed(0)
    work = build(name, scale="tiny", device=device)
    update = OPTIMIZERS[optimizer](work.model.parameters())
    batches = [work.sample(work.batch) for _ in range(steps)]
    torch.manual_seed(1)  # dropout
    work.model.train()
    losses = []
    for step, batch in enumerate(batches):
        if side_stream is None:
            *inputs, target = [tensor.to(device) for tensor in batch]
        else:
            main = torch.soft.current_stream()
            with side_stream:
                *inputs, target = [tensor.to(device) for tensor in batch]
            main.wait_stream(side_stream)
            for tensor in (*inputs, target):
                tensor.record_stream(main)
        update.zero_grad(set_to_none=True)
        loss = work.criterion(work.model(*inputs), target)
        loss.backward()
        update.step()
        losses.append(loss.detach())
        between(step)
    return Run([loss.cpu() for loss in losses], [parameter.detach().cpu() for parameter in work.model.parameters()])


def identical(one: Run, other: Run) -> bool:
    """Whether two runs agree in every bit."""
    return all(
        a.equal(b) for a, b in zip((*one.losses, *one.parameters), (*other.losses, *other.parameters), strict=True)
    )
