"""The zoo's registry: a recipe says how to make and feed a network; a workload is a network that can step.

Every family file registers its names with `family`; `build` turns a name into a workload.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

Scale = Literal["paper", "tiny"]
Sample = Callable[[int], tuple[Tensor, ...]]
Criterion = Callable[[Any, Tensor], Tensor]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

# One launch for many parameters, as PyTorch does by default on a GPU; on a CPU it must be asked for.
momentum: MakeOptimizer = partial(torch.optim.SGD, lr=0.01, momentum=0.9, foreach=True)
adam: MakeOptimizer = partial(torch.optim.Adam, lr=1e-4, foreach=True)
plain_sgd: MakeOptimizer = partial(torch.optim.SGD, lr=0.1, foreach=True)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make one network and feed it, at one scale.

    `sample(batch)` draws host tensors: the model's inputs in order, then the target.
    `criterion(output, target)` gives the loss. `batch` is the size used when the user names none.
    """

    module: Callable[[], nn.Module]
    sample: Sample
    criterion: Criterion
    batch: int
    optimizer: MakeOptimizer = momentum


@dataclass(frozen=True, slots=True)
class Workload:
    """A network of the zoo, ready to train or to serve."""

    name: str
    batch: int
    device: torch.device
    model: nn.Module
    optimizer: torch.optim.Optimizer
    sample: Sample
    criterion: Criterion

    def _draw(self) -> tuple[Tensor, ...]:
        return tuple(tensor.to(self.device) for tensor in self.sample(self.batch))

    def step(self) -> Tensor:
        """Train on one fresh batch; returns the loss."""
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        *inputs, target = self._draw()
        loss = self.criterion(self.model(*inputs), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def infer(self) -> Any:
        """Serve one fresh batch; returns the model's output."""
        self.model.eval()
        with torch.no_grad():
            *inputs, _ = self._draw()
            return self.model(*inputs)


MakeRecipe = Callable[[str, Scale], Recipe]

_exact: dict[str, MakeRecipe] = {}
_patterns: list[tuple[re.Pattern[str], MakeRecipe]] = []


def family(*names: str, pattern: str | None = None) -> Callable[[MakeRecipe], MakeRecipe]:
    """Register `make(name, scale)` for some names and, for families of any depth, for a pattern of names."""

    def register(make: MakeRecipe) -> MakeRecipe:
        for name in names:
            assert name not in _exact, f"{name} is registered twice"
            _exact[name] = make
        if pattern is not None:
            _patterns.append((re.compile(pattern), make))
        return make

    return register


def names() -> tuple[str, ...]:
    """The zoo's names, sorted; families of any depth accept more."""
    return tuple(sorted(_exact))


def recipe(name: str, scale: Scale = "paper") -> Recipe:
    """The recipe of a network by name; ValueError with the nearest names if there is none."""
    if scale not in ("paper", "tiny"):
        raise ValueError(f"scale must be 'paper' or 'tiny', not {scale!r}")
    make = _exact.get(name)
    if make is None:
        make = next((make for pattern, make in _patterns if pattern.fullmatch(name)), None)
    if make is None:
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.4)
        hint = f"; did you mean {', '.join(near)}?" if near else f"; the zoo has {', '.join(names())}"
        raise ValueError(f"no model is called {name!r}{hint}")
    return make(name, scale)


def build(name: str, batch: int | None = None, scale: Scale = "paper", device: torch.device | str = "cpu") -> Workload:
    """Make the named network with its optimizer and a step function."""
    chosen = recipe(name, scale)
    size = chosen.batch if batch is None else batch
    if size < 1:
        raise ValueError(f"batch must be at least 1, not {size}")
    model = chosen.module()
    if torch.device(device).type != "cpu":  # the same weights on every device; and a fake module cannot be moved
        model = model.to(device)
    return Workload(
        name=name,
        batch=size,
        device=torch.device(device),
        model=model,
        optimizer=chosen.optimizer(model.parameters()),
        sample=chosen.sample,
        criterion=chosen.criterion,
    )
