"""Under any plan, the gradients of a real model are the same bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

import neaptide
from neaptide.fitting.run import Run
from neaptide.models import recipe
from neaptide.planning.plan import Planner, Return
from soft_plans import PROFILED, planner, same, train


def of_zoo(name: str, batch: int) -> tuple[Callable[[], nn.Module], Callable[[nn.Module], None]]:
    made = recipe(name, "tiny")
    torch.manual_seed(0)
    *inputs, target = (tensor.to("soft") for tensor in made.sample(batch))

    def step(model: nn.Module) -> None:
        made.criterion(model(*inputs), target).backward()

    return made.module, step


@pytest.mark.parametrize(
    ("name", "ways", "stay"),
    [
        ("resnet18", "r", False),
        ("resnet18", "rrs", True),
        ("vgg16", "s", True),
        ("bert-base", "rrs", True),
        ("gpt2", "r", False),
        ("unet", "rs", False),
        ("rnnlm-small", "rs", True),
    ],
)
def test_gradients_are_bit_identical(name: str, ways: str, stay: bool) -> None:
    module, step = of_zoo(name, batch=2)
    plain, _ = train(module, step, None)
    planned, run = train(module, step, planner(ways, stay))
    assert same(plain, planned)
    assert run is not None
    assert run.plan is not None
    assert len(run.plan.gaps) > 5
    assert run.measured_peak_bytes == pytest.approx(run.predicted_peak_bytes, rel=0.02)


class Mixed(nn.Module):
    """In-place ops, a shared tensor, a slice written in place, dropout, batch norm, and a view that is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.third = nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        shared = torch.relu_(self.norm(self.first(images)))
        both = torch.sigmoid(self.second(shared)) * shared + shared
        both = torch.nn.functional.dropout(both, 0.3)
        padded = torch.zeros_like(both)
        padded[:, :, 1:] = both[:, :, :-1].exp()
        return self.third(padded.mean((2, 3)).tanh())


IMAGES = torch.randn(4, 3, 16, 16)


@pytest.mark.parametrize(("ways", "stay"), [("s", True), ("r", True), ("r", False), ("sr", False)])
def test_in_place_ops_shared_tensors_and_dropout_give_the_same_gradients(ways: str, stay: bool) -> None:
    def step(model: nn.Module) -> None:
        model(IMAGES.to("soft")).square().sum().backward()

    plain, _ = train(Mixed, step, None)
    planned, run = train(Mixed, step, planner(ways, stay))
    assert same(plain, planned)  # the running statistics, too
    assert run is not None
    assert run.plan is not None
    assert run.plan.gaps


def test_gradients_are_bit_identical_under_autocast() -> None:
    def step(model: nn.Module) -> None:
        with torch.autocast("soft", dtype=torch.bfloat16):
            model(IMAGES.to("soft")).float().square().sum().backward()

    plain, _ = train(Mixed, step, None)
    for ways in ("s", "r"):
        planned, _ = train(Mixed, step, planner(ways))
        assert same(plain, planned)


def test_two_backward_passes_over_one_graph_give_the_same_gradients() -> None:
    def step(model: nn.Module) -> None:
        loss = model(IMAGES.to("soft")).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    plain, _ = train(Mixed, step, None)
    for ways in ("s", "r", "sr"):
        planned, _ = train(Mixed, step, planner(ways))
        assert same(plain, planned)


def test_the_backward_passes_of_two_losses_give_the_same_gradients() -> None:
    def step(model: nn.Module) -> None:
        first = model(IMAGES.to("soft")).square().sum()
        second = model(IMAGES.to("soft") + 1).sum()
        second.backward()
        first.backward()

    plain, _ = train(Mixed, step, None)
    for ways in ("s", "r"):
        planned, _ = train(Mixed, step, planner(ways))
        assert same(plain, planned)


def test_a_gradient_of_a_gradient_is_the_same() -> None:
    def step(model: nn.Module) -> None:
        images = IMAGES.to("soft").requires_grad_()
        (slope,) = torch.autograd.grad(torch.tanh(model[0](images)).sum(), images, create_graph=True)
        (model(images).sum() + slope.square().sum()).backward()

    def module() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 4, 3), nn.Tanh())

    plain, _ = train(module, step, None)
    for ways in ("s", "r"):
        planned, _ = train(module, step, planner(ways))
        assert same(plain, planned)


@pytest.mark.parametrize(("ways", "stay"), [("s", True), ("r", False)])
def test_gradients_accumulated_over_several_batches_are_one_planned_iteration(ways: str, stay: bool) -> None:
    def train_with(plan: Planner | None) -> tuple[list[Tensor], Run | None]:
        torch.manual_seed(1)
        model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(4))).to("soft")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = neaptide.fit(model, "1GiB", planner=plan) if plan else None
        with run or nullcontext():
            for step in range(PROFILED + 4):
                for part in range(3):
                    batch = torch.randn(256, 64, generator=torch.Generator().manual_seed(3 * step + part))
                    model(batch.to("soft")).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        return [parameter.detach().cpu() for parameter in model.parameters()], run

    plain, _ = train_with(None)
    planned, run = train_with(planner(ways, stay))
    assert all(map(torch.equal, plain, planned))
    assert run is not None
    assert run.plan is not None
    assert len(run.plan.gaps) >= 9
    assert run.replans == 0
    assert run.measured_peak_bytes == pytest.approx(run.predicted_peak_bytes, rel=0.02)


def test_lossless_codecs_change_nothing_and_half_precision_changes_little() -> None:
    module, step = of_zoo("vgg16", batch=2)
    plain, _ = train(module, step, None)
    for codec in ("bit", "sparse"):
        planned, run = train(module, step, planner("c", codec=codec))
        assert same(plain, planned)
        assert run is not None
        assert run.plan is not None
        assert run.plan.gaps
        assert {gap.back for gap in run.plan.gaps} == {Return.DECODE}
    planned, _ = train(module, step, planner("c", codec="half"))
    assert not same(plain, planned)
    for a, b in zip(plain.gradients[-1], planned.gradients[-1], strict=True):
        assert torch.allclose(a, b, atol=0.05 * float(a.abs().max()) + 1e-6)
