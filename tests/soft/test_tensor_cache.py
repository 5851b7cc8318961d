"""The tensor cache: saved tensors stay on the device while there is room, and the least recently used leave first."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import neaptide
from neaptide.models import recipe
from neaptide.planning.executor.run.tensor_cache import TensorCache
from soft_plans import same, train

SOFT = torch.device("soft")
MIB = 1 << 20


class Exponents(nn.Module):
    """Layers that each save one result of 1 MiB for the backward pass."""

    def __init__(self, layers: int = 8) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((256, 1024), 0.1))
        self.layers = layers

    def forward(self) -> Tensor:
        x = self.scale * 1.0
        for _ in range(self.layers):
            x = torch.exp(-x)  # saves its result alone
        return x.sum()


def iterate(cache: TensorCache, model: nn.Module) -> tuple[int, int]:
    """One iteration: its peak, and the bytes that it sent to the host."""
    sent = cache.copier.sent_bytes
    model.zero_grad()
    model().backward()
    torch.soft.synchronize()
    return cache.begin(), cache.copier.sent_bytes - sent


def test_there_is_no_traffic_while_memory_suffices() -> None:
    model = Exponents().to(SOFT)
    with TensorCache(SOFT, 1 << 40, model.parameters()) as cache:
        cache.begin()
        # Nothing is known of the first two iterations, so everything leaves.
        assert all(iterate(cache, model)[1] > 0 for _ in range(2))
        # Copies of what left last time begin early in the third, but nothing has to leave any more.
        iterate(cache, model)
        assert [iterate(cache, model)[1] for _ in range(3)] == [0, 0, 0]
        assert cache.copier.pool.taken_bytes == 0


def test_only_the_least_recently_used_leave_and_only_as_many_as_must() -> None:
    model = Exponents().to(SOFT)
    with TensorCache(SOFT, 1 << 40, model.parameters()) as cache:
        cache.begin()
        iterate(cache, model)
        lowest, _ = iterate(cache, model)
        iterate(cache, model)
        highest, _ = iterate(cache, model)
        assert highest >= lowest + 4 * MIB
        # Eight results are saved, 1 MiB each. At a limit 3 MiB below the peak, the first three saved must leave.
        cache.limit_bytes = highest - 3 * MIB
        iterate(cache, model)
        peak, sent = iterate(cache, model)
        assert peak <= cache.limit_bytes
        assert sent == 3 * MIB
        assert cache._early == {0, 1, 2}


def test_the_limit_holds_while_it_changes() -> None:
    model = Exponents().to(SOFT)
    with TensorCache(SOFT, 0, model.parameters()) as cache:
        cache.begin()
        iterate(cache, model)
        lowest, _ = iterate(cache, model)
        for extra in (0, 2, 5, 1, 8, 0):
            cache.limit_bytes = lowest + extra * MIB
            assert iterate(cache, model)[0] <= cache.limit_bytes


def test_an_iteration_of_another_size_keeps_as_little_as_the_first() -> None:
    scale = torch.nn.Parameter(torch.full((256, 1024), 0.1, device=SOFT))

    def peak(rows: int) -> int:
        x = scale[:rows] * 1.0
        for _ in range(8):
            x = torch.exp(-x)
        x.sum().backward()
        scale.grad = None
        del x
        torch.soft.synchronize()
        return cache.begin()

    with TensorCache(SOFT, 1 << 40, [scale]) as cache:
        cache.begin()
        peak(128)
        first = peak(128)
        for _ in range(2):
            peak(128)
        cache.limit_bytes = first + 2 * MIB
        assert peak(256) <= cache.limit_bytes  # the larger iteration alone would save 4 MiB more


@pytest.mark.parametrize("name", ["resnet18", "bert-base", "unet", "rnnlm-small"])
def test_gradients_are_bit_identical_and_the_peak_stays_within_the_budget(name: str) -> None:
    made = recipe(name, "tiny")
    torch.manual_seed(0)
    *inputs, target = (tensor.to("soft") for tensor in made.sample(2))

    def step(model: nn.Module) -> None:
        made.criterion(model(*inputs), target).backward()

    plain, _ = train(made.module, step, None, 6)
    roomy, run = train(made.module, step, "tensor-cache", 6)  # type: ignore[arg-type]
    assert same(plain, roomy)
    assert run is not None
    assert run.measured_peak_bytes is not None
    assert run.profiled_peak_bytes is not None
    budget = (run.measured_peak_bytes + run.profiled_peak_bytes) // 2
    del run  # it holds the model
    tight, run = train(made.module, step, "tensor-cache", 6, str(budget))  # type: ignore[arg-type]
    assert same(plain, tight)
    assert run is not None
    assert run.measured_peak_bytes is not None
    assert run.measured_peak_bytes <= budget
    assert run.cache is not None
    assert run.cache.evictions > 0
    assert "evictions" in run.summary()


def test_changing_a_saved_tensor_in_place_is_an_error_as_without_a_cache() -> None:
    weight = nn.Parameter(torch.ones(64, device=SOFT))
    with TensorCache(SOFT, 1 << 40, [weight]) as cache:
        cache.begin()
        hidden = torch.sigmoid(weight)
        hidden.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            hidden.sum().backward()


def test_a_budget_below_the_least_that_an_iteration_needs_is_refused_with_that_figure() -> None:
    model = Exponents().to(SOFT)
    with neaptide.fit(model, "1MiB", planner="tensor-cache"):
        model().backward()
        with pytest.raises(
            ValueError, match=r"still needs .* MiB, more than the budget of 1\.00 MiB: raise the budget"
        ):
            model()
