"""Memory is taken at launch: how far launching runs ahead decides how much is held beyond what is needed."""

from __future__ import annotations

import pytest
import torch

from neaptide.models import build


def peaks(cap: int | None) -> tuple[int, int]:
    """Most bytes held, and most bytes needed, over two ResNet steps without a synchronization."""
    torch.manual_seed(0)
    with torch.soft.persistent_memory():
        work = build("resnet18", batch=2, device="soft")
    work.step()
    torch.soft.empty_cache()
    torch.soft.set_in_flight_cap(cap)
    torch.soft.reset_peak_memory_stats()
    for _ in range(2):
        work.step()
    torch.soft.synchronize()
    return torch.soft.max_memory_reserved(), torch.soft.max_memory_allocated()


@pytest.mark.parametrize("cap", [None, 64, 16, 4, 1])
def test_what_is_held_is_bounded_by_what_is_needed(cap: int | None) -> None:
    held, needed = peaks(cap)
    assert held >= needed
    if cap is not None and cap <= 4:
        assert held <= 1.10 * needed


def test_the_series_shows_both_figures() -> None:
    value = torch.zeros(3 << 20, dtype=torch.uint8, device="soft")
    with torch.soft.record_memory_series() as samples:
        value = value + 1
    assert samples
    assert all(sample.held >= sample.needed for sample in samples)
    assert max(sample.needed for sample in samples) >= 6 << 20
