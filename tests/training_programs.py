"""Small training programs whose iterations differ in shape. Each one opens `around(model)` around its loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

Around = Callable[[nn.Module], AbstractContextManager[object]]

DEVICE = "soft"
STEPS = 16


def _batch(width: int = 8) -> Tensor:
    return torch.ones(4, width, device=DEVICE)


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to(DEVICE)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def _train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(_batch()).square().sum().backward()
    optimizer.step()


def plain(around: Around) -> None:
    model = _model()
    optimizer = _sgd(model)
    with around(model):
        for _ in range(STEPS):
            _train(model, optimizer)


def accumulating(around: Around) -> None:
    model = _model()
    optimizer = _sgd(model)
    with around(model):
        for _ in range(STEPS):
            optimizer.zero_grad()
            for _ in range(3):
                model(_batch()).square().sum().backward()
            optimizer.step()


def gan(around: Around) -> None:
    generator, critic = _model(), _model()
    of_generator, of_critic = _sgd(generator), _sgd(critic)
    with around(generator):
        for _ in range(STEPS):
            fake = generator(_batch())
            of_critic.zero_grad()
            (critic(fake.detach()).sum() - critic(_batch()).sum()).backward()
            of_critic.step()
            of_generator.zero_grad()
            critic(fake).sum().backward()
            of_generator.step()


def teacher(around: Around) -> None:
    student, wise = _model(), _model().eval()
    optimizer = _sgd(student)
    with around(student):
        for _ in range(STEPS):
            with torch.no_grad():
                target = wise(_batch())
            optimizer.zero_grad()
            (student(_batch()) - target).square().sum().backward()
            optimizer.step()


def evaluating(around: Around) -> None:
    model = _model()
    optimizer = _sgd(model)
    with around(model):
        for step in range(2 * STEPS):
            model.train()
            _train(model, optimizer)
            if step in (1, 3, 24):
                model.eval()
                with torch.no_grad():
                    for _ in range(3):
                        model(_batch())


def closure(around: Around) -> None:
    model = _model()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=1, max_eval=1, history_size=1)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = model(_batch()).square().sum()
        value.backward()
        return value

    with around(model):
        for _ in range(STEPS):
            optimizer.step(loss)  # type: ignore[arg-type]


def without_calls(around: Around) -> None:
    model = nn.Linear(8, 8).to(DEVICE)
    optimizer = _sgd(model)
    with around(model):
        for _ in range(STEPS):
            optimizer.zero_grad()
            nn.functional.linear(_batch(), model.weight, model.bias).square().sum().backward()
            optimizer.step()


def changing_optimizers(around: Around) -> None:
    """A program in which the optimizer that closes the first iterations steps once and never again."""
    first, second = _model(), _model()
    of_first, of_second = _sgd(first), _sgd(second)
    with around(first):
        _train(first, of_first)
        _train(second, of_second)
        for _ in range(3 * STEPS):
            _train(first, of_first)


PROGRAMS: dict[str, Callable[[Around], None]] = {
    program.__name__: program
    for program in (plain, accumulating, gan, teacher, evaluating, closure, without_calls, changing_optimizers)
}
