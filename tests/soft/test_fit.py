"""A plan is carried out while the program runs: what it holds, when it is made anew, and when it is refused."""

from __future__ import annotations

import gc
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import neaptide
from neaptide.core.device import find_device
from neaptide.core.traces.trace import Trace
from neaptide.models import build
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.plan import CannotFitError, Plan
from neaptide.planning.planners import best
from soft_plans import PROFILED, planner, same, train

EVERYTHING = planner("rs", stay=True)


def perceptron(width: int = 256, layers: int = 6) -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)))


def rows(count: int, width: int = 256) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(3)).to("soft")


def test_a_change_of_shape_leads_to_a_new_plan_and_changes_no_gradient() -> None:
    sizes = [64] * (PROFILED + 2) + [96] * (PROFILED + 2)

    def run_with(plan: object) -> tuple[object, object]:
        left = iter(sizes)
        return train(perceptron, lambda model: model(rows(next(left))).sum().backward(), plan, len(sizes))  # type: ignore[arg-type]

    (plain, _), (planned, run) = run_with(None), run_with(EVERYTHING)
    assert same(plain, planned)  # type: ignore[arg-type]
    assert run.replans == 1  # type: ignore[attr-defined]
    assert run.trace.tensors.bytes.max() >= 96 * 256 * 4  # type: ignore[attr-defined]


def test_changing_a_saved_tensor_in_place_is_an_error_as_without_a_plan() -> None:
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


def test_a_tensor_that_the_program_holds_is_kept_and_the_summary_says_why() -> None:
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


def test_an_op_called_with_another_number_each_time_is_not_recomputed() -> None:
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


def test_an_op_called_with_another_number_later_is_detected() -> None:
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


def test_a_graph_that_is_dropped_leaves_nothing_behind() -> None:
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


def test_a_fitted_model_keeps_the_budget() -> None:
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


def test_profiling_needs_little_more_memory_than_the_best_plan_and_finds_the_trace() -> None:
    torch.manual_seed(3)
    work = build("gpt2", batch=8, scale="tiny", device="soft")
    before = torch.soft.memory_allocated()
    device = find_device("soft")  # measuring it takes some memory, too
    with neaptide.fit(work.model, "1GiB", planner="liveness", device=device) as run:
        for _ in range(PROFILED + 3):
            work.step()
    assert run.trace is not None
    assert run.profiled_peak_bytes is not None
    assert run.measured_peak_bytes == pytest.approx(run.trace.peak_bytes + run.chosen.elsewhere_bytes, rel=0.01)
    assert run.profiled_peak_bytes < before + 1.2 * lower_bound(run.trace)
    assert lower_bound(run.trace) < run.trace.peak_bytes / 2


def test_a_budget_that_no_plan_meets_is_refused_with_both_figures() -> None:
    model = perceptron().to("soft")
    with neaptide.fit(model, "1MiB") as run:
        for _ in range(PROFILED):
            model(rows(64)).sum().backward()
        with pytest.raises(CannotFitError, match="cannot meet"):
            model(rows(64))
    assert run.summary().startswith("budget")


def test_a_refusal_names_the_budget_that_was_asked_for() -> None:
    elsewhere = torch.zeros(1 << 20, device="soft")  # 4 MiB that are no part of an iteration
    model = perceptron().to("soft")
    with neaptide.fit(model, "5MiB"):
        for _ in range(PROFILED):
            model(rows(64)).sum().backward()
        with pytest.raises(CannotFitError, match=r"cannot meet 5\.00 MiB") as caught:
            model(rows(64))
    assert caught.value.bound_bytes > elsewhere.nbytes


def test_a_model_on_the_host_is_refused() -> None:
    with pytest.raises(ValueError, match="move it to a device"):
        neaptide.fit(perceptron(), "1GiB")


def test_where_the_plan_of_best_cannot_be_carried_out_a_plan_of_a_planner_that_it_knows_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def step(model: nn.Module) -> None:
        model(inputs).mean().backward()

    inputs = rows(2048)
    plain, run = train(perceptron, step, planner("k"))
    assert run is not None
    assert run.measured_peak_bytes is not None
    budget = int(0.85 * run.measured_peak_bytes)
    del run

    def refuse(trace: object, budget_bytes: int, device: object) -> Plan:  # noqa: ARG001
        raise CannotFitError("best", budget_bytes, budget_bytes + 1, 0)

    monkeypatch.setattr(best, "plan", refuse)
    planned, run = train(perceptron, step, "best", budget=str(budget))  # type: ignore[arg-type]
    assert same(plain, planned)
    assert run is not None
    assert run.plan is not None
    assert run.plan.planner in (*best.KNOWN, *best.LAST_RESORTS)
    assert run.measured_peak_bytes is not None
    assert run.measured_peak_bytes <= budget


def test_a_plan_that_reorders_ops_is_refused_with_the_name_of_one_that_does_not() -> None:
    def reordering(trace: Trace, budget_bytes: int, device: object) -> Plan:  # noqa: ARG001
        return Plan(planner="swapadvisor", order=tuple(range(len(trace.ops))))

    with pytest.raises(ValueError, match='a program that runs eagerly keeps its order: name "swapadvisor-in-order"'):
        train(perceptron, lambda model: model(rows(8)).sum().backward(), reordering)  # type: ignore[arg-type]
