"""Memory is taken at launch: how far launching runs ahead decides how much is held beyond what is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from neaptide.models import build
from soft.gate import hold, let_go

STEPS = 3


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    let_go()
    torch.soft.set_in_flight_cap(None)
    torch.soft.set_reuse_at_launch(True)


def held_against_needed(cap: int | None, reuse_at_launch: bool, held_back: bool = False) -> float:
    """The peak of held bytes divided by that of needed bytes, in ResNet steps without a synchronization between.

    If they are held back, the kernels of a step run when all are launched: nothing is further ahead.
    """
    torch.manual_seed(0)
    with torch.soft.persistent_memory():
        work = build("resnet18", batch=2, device="soft")
    work.step()
    torch.soft.empty_cache()
    torch.soft.set_in_flight_cap(cap)
    torch.soft.set_reuse_at_launch(reuse_at_launch)
    torch.soft.reset_peak_memory_stats()
    if held_back:
        work.model.register_forward_pre_hook(lambda *_: hold())  # the copy of the batch has ended by then
    for _ in range(STEPS):
        work.step()
        let_go()
    torch.soft.synchronize()
    return float(torch.soft.max_memory_reserved() / torch.soft.max_memory_allocated())


def test_launching_ahead_takes_memory_early_and_a_cap_bounds_it() -> None:
    unbounded = held_against_needed(None, reuse_at_launch=False, held_back=True)
    assert unbounded > 1.3  # what was freed by the program is not yet free on the device
    capped = {cap: held_against_needed(cap, reuse_at_launch=False) for cap in (64, 16, 4, 1)}
    assert all(1 <= ratio <= unbounded + 0.05 for ratio in capped.values())
    assert capped[4] <= 1.30  # four kernels of this network may take a sixth of what it needs
    assert capped[1] <= 1.25


@pytest.mark.parametrize("cap", [None, 4])
def test_reusing_freed_blocks_at_launch_keeps_early_allocation_small_at_any_cap(cap: int | None) -> None:
    assert 1 <= held_against_needed(cap, reuse_at_launch=True) <= 1.15  # the rest is gaps, some left by other tests


def test_a_block_is_not_overwritten_before_its_last_use() -> None:
    def run() -> tuple[int, torch.Tensor, torch.Tensor]:
        first = torch.full((1 << 18,), 3.0, device="soft") + 1
        address, result = first.data_ptr(), first * 2
        del first
        second = torch.zeros(1 << 18, device="soft") + 5
        return address, result, second

    torch.soft.set_reuse_at_launch(False)
    run()  # an operator that was never seen runs at once, so let all be seen
    torch.soft.synchronize()
    hold()
    address, result, second = run()
    assert second.data_ptr() != address  # the kernel that reads `first` has not run
    let_go()
    assert result.eq(8).all().item()
    assert second.eq(5).all().item()


def test_the_memory_series_shows_held_and_needed_bytes() -> None:
    value = torch.zeros(3 << 20, dtype=torch.uint8, device="soft")
    with torch.soft.record_memory_series() as samples:
        value = value + 1
    assert samples
    assert all(sample.held >= sample.needed for sample in samples)
    assert max(sample.needed for sample in samples) >= 6 << 20
