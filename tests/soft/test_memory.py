"""Memory is counted and given back, and a forked child cannot use it."""

from __future__ import annotations

import os

import pytest
import torch

from neaptide.devices.soft import native

SOFT = "soft"


def test_out_of_memory_names_the_facts_and_leaves_the_device_usable() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="MiB"):
        torch.empty(1 << 40, device=SOFT)
    kept: list[torch.Tensor] = []

    def fill() -> None:
        for _ in range(40):
            kept.append(torch.empty(64 << 20, dtype=torch.uint8, device=SOFT))

    with pytest.raises(torch.OutOfMemoryError):
        fill()
    assert kept
    kept.clear()
    assert torch.zeros(1 << 20, device=SOFT).sum().item() == 0


def test_memory_is_counted_and_given_back() -> None:
    torch.soft.synchronize()
    torch.soft.empty_cache()
    before = torch.soft.memory_allocated()
    torch.soft.reset_peak_memory_stats()
    value = torch.empty(10 << 20, dtype=torch.uint8, device=SOFT)
    assert torch.soft.memory_allocated() - before == 10 << 20
    assert torch.soft.memory_reserved() >= 10 << 20
    del value
    torch.soft.empty_cache()
    assert torch.soft.memory_allocated() == before
    assert torch.soft.max_memory_allocated() - before == 10 << 20
    free, capacity = torch.soft.mem_get_info()
    assert free <= capacity == torch.soft.get_device_properties().total_memory
    native.check_memory()


def test_evicted_memory_is_restored_bit_by_bit() -> None:
    value = torch.arange(1 << 20, device=SOFT)
    held = torch.soft.memory_reserved()
    assert torch.soft.evict() == held
    assert torch.soft.memory_reserved() == 0
    torch.soft.restore()
    assert value.cpu().equal(torch.arange(1 << 20))


@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.filterwarnings("ignore")  # that a process with threads is forked
def test_data_loader_workers_are_forked(pin: bool) -> None:
    data = torch.utils.data.TensorDataset(torch.ones(32, 3))
    loader = torch.utils.data.DataLoader(data, 8, num_workers=2, pin_memory=pin)
    total = 0.0
    for (batch,) in loader:
        assert batch.is_pinned() == pin
        total += batch.to(SOFT, non_blocking=True).sum().item()
    assert total == 96


def test_a_forked_child_is_refused_and_does_not_hang() -> None:
    kept = torch.ones(3, device=SOFT)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.manual_seed(1)
            torch.ones(3, device=SOFT)
            message = b"no error"
        except RuntimeError as error:
            message = str(error).split("\n")[0].encode()
        os.write(write, message)
        os._exit(0)
    os.waitpid(child, 0)
    assert b"forked" in os.read(read, 200)
    assert kept.sum().item() == 3
