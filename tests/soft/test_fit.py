"""A plan is carried out on a real model: the gradients are the same bit by bit, and the memory really goes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import neaptide
from neaptide.models import build, recipe
from neaptide.planning.plan import CannotFitError, Return
from neaptide.planning.planners import best
from soft_plans import PROFILED, planner, same, train

EVERYTHING = planner("rs", stay=True)


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
def test_in_place_and_shared_tensors_and_dropout(ways: str, stay: bool) -> None:
    def step(model: nn.Module) -> None:
        model(IMAGES.to("soft")).square().sum().backward()

    plain, _ = train(Mixed, step, None)
    planned, run = train(Mixed, step, planner(ways, stay))
    assert same(plain, planned)  # the running statistics, too
    assert run is not None
    assert run.plan is not None
    assert run.plan.gaps


def test_under_autocast() -> None:
    def step(model: nn.Module) -> None:
        with torch.autocast("soft", dtype=torch.bfloat16):
            model(IMAGES.to("soft")).float().square().sum().backward()

    plain, _ = train(Mixed, step, None)
    for ways in ("s", "r"):
        planned, _ = train(Mixed, step, planner(ways))
        assert same(plain, planned)


def test_two_backward_passes_over_one_graph() -> None:
    def step(model: nn.Module) -> None:
        loss = model(IMAGES.to("soft")).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    plain, _ = train(Mixed, step, None)
    for ways in ("s", "r", "sr"):
        planned, _ = train(Mixed, step, planner(ways))
        assert same(plain, planned)


def test_the_backward_passes_of_two_losses() -> None:
    def step(model: nn.Module) -> None:
        first = model(IMAGES.to("soft")).square().sum()
        second = model(IMAGES.to("soft") + 1).sum()
        second.backward()
        first.backward()

    plain, _ = train(Mixed, step, None)
    for ways in ("s", "r"):
        planned, _ = train(Mixed, step, planner(ways))
        assert same(plain, planned)


def test_a_gradient_of_a_gradient() -> None:
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


def perceptron(width: int = 256, layers: int = 6) -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)))


def rows(count: int, width: int = 256) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(3)).to("soft")


def test_a_change_of_shape_is_planned_again_and_changes_no_gradient() -> None:
    sizes = [64] * (PROFILED + 2) + [96] * (PROFILED + 2)

    def run_with(plan: object) -> tuple[object, object]:
        left = iter(sizes)
        return train(perceptron, lambda model: model(rows(next(left))).sum().backward(), plan, len(sizes))  # type: ignore[arg-type]

    (plain, _), (planned, run) = run_with(None), run_with(EVERYTHING)
    assert same(plain, planned)  # type: ignore[arg-type]
    assert run.replans == 1  # type: ignore[attr-defined]
    assert run.trace.tensors.bytes.max() >= 96 * 256 * 4  # type: ignore[attr-defined]


def test_what_was_saved_and_changed_in_place_is_an_error_as_without_a_plan() -> None:
    def step(model: nn.Module) -> None:
        hidden = torch.sigmoid(model(rows(8)))
        if changing:
            hidden.add_(1)
        hidden.sum().backward()

    changing = False
    for plan in (None, planner("k"), planner("s"), planner("r")):
        model = perceptron(layers=2).to("soft")
        changing = False
        context = neaptide.fit(model, "1GiB", planner=plan) if plan else torch.enable_grad()
        with context:
            for _ in range(PROFILED + 1):
                step(model)
            changing = True
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                step(model)


def test_what_the_program_holds_is_kept_and_the_summary_says_why() -> None:
    held: list[Tensor] = []

    class Holding(nn.Sequential):
        def forward(self, values: Tensor) -> Tensor:
            for layer in self:
                values = layer(values)
                held.append(values)
            return values

    def step(model: nn.Module) -> None:
        held.clear()
        model(rows(64)).sum().backward()

    plain, _ = train(lambda: Holding(*perceptron()), step, None)
    planned, run = train(lambda: Holding(*perceptron()), step, EVERYTHING)
    assert same(plain, planned)
    assert run is not None
    assert run.plan is not None
    assert not run.plan.gaps
    assert "the program holds it too" in run.summary()


def test_an_op_that_is_given_another_number_each_time_is_not_run_again() -> None:
    calls = 0

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(256, 256), perceptron(layers=2)

        def forward(self, values: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return self.second((self.first(values) * (1 / calls)).tanh())

    def run_with(plan: object) -> tuple[object, object]:
        nonlocal calls
        calls = 0
        return train(Scaled, lambda model: model(rows(64)).sum().backward(), plan)  # type: ignore[arg-type]

    (plain, _), (planned, run) = run_with(None), run_with(planner("r", stay=False))
    assert same(plain, planned)  # type: ignore[arg-type]
    assert "is given other numbers in other iterations" in run.summary()  # type: ignore[attr-defined]


def test_an_op_that_is_given_another_number_later_is_noticed() -> None:
    factor = 1.0

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(256, 256), perceptron(layers=2)

        def forward(self, values: Tensor) -> Tensor:
            return self.second((self.first(values) * factor).tanh())

    model = Scaled().to("soft")
    with neaptide.fit(model, "1GiB", planner=planner("r", stay=False)) as run:
        for _ in range(PROFILED + 1):
            model(rows(64)).sum().backward()
        assert run.plan is not None
        assert run.plan.gaps
        factor = 2.0
        model(rows(64)).sum().backward()
        with pytest.raises(RuntimeError, match="a number that has changed"):
            model(rows(64))


def test_codes_without_loss_change_nothing_and_half_precision_little() -> None:
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


def test_a_graph_that_is_thrown_away_leaves_nothing_behind() -> None:
    model = perceptron().to("soft")
    with neaptide.fit(model, "1GiB", planner=planner("s")) as run:
        for _ in range(PROFILED + 1):
            model(rows(64)).sum().backward()
        for parameter in model.parameters():
            parameter.grad = None
        torch.soft.synchronize()
        before = torch.soft.memory_allocated()
        for _ in range(3):
            model(rows(64)).sum()
        gc.collect()
        assert torch.soft.memory_allocated() == before
        assert run._runner is not None
        assert run._runner.copier.sent_bytes > 0
        assert run._runner.copier.pool.taken_bytes == 0
        for _ in range(2):
            model(rows(64)).sum().backward()
        assert run.replans == 0


def test_swaps_share_one_pinned_piece() -> None:
    _, run = train(perceptron, lambda model: model(rows(512)).sum().backward(), planner("s"))
    assert run is not None
    assert run._runner is not None
    pool = run._runner.copier.pool
    assert len(pool._pieces) == 1
    assert 0 < pool.most_taken_bytes <= pool.pinned_bytes


def test_the_budget_is_kept() -> None:
    work = build("gpt2", batch=8, scale="tiny", device="soft")
    with neaptide.fit(work.model, "1GiB", planner="liveness") as run:
        for _ in range(PROFILED + 1):
            work.step()
    assert run.trace is not None
    budget = run.trace.persistent_bytes + run.trace.ephemeral_bytes // 2 + run.chosen.elsewhere_bytes
    with neaptide.fit(work.model, budget, planner=partial(best.plan, time_limit_seconds=0.5)) as run:
        for _ in range(PROFILED + 3):
            work.step()
    assert run.predicted_peak_bytes is not None
    assert run.measured_peak_bytes is not None
    assert run.predicted_peak_bytes <= budget
    assert run.measured_peak_bytes == pytest.approx(run.predicted_peak_bytes, rel=0.02)


def test_a_budget_that_no_plan_meets_is_refused_with_both_figures() -> None:
    model = perceptron().to("soft")
    with neaptide.fit(model, "1MiB") as run:
        for _ in range(PROFILED):
            model(rows(64)).sum().backward()
        with pytest.raises(CannotFitError, match="cannot meet"):
            model(rows(64))
    assert run.summary().startswith("budget")


def test_a_model_on_the_host_is_refused() -> None:
    with pytest.raises(ValueError, match="move it to a device"):
        neaptide.fit(perceptron(), "1GiB")
