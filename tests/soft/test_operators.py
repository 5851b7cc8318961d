"""Copies and operators give the CPU's results under a GPU's rules."""

from __future__ import annotations

import copy
import io

import pytest
import torch

from soft.gate import hold, let_go

SOFT = "soft"


def test_a_non_blocking_copy_of_pinned_memory_does_not_wait() -> None:
    source = torch.randn(1 << 19).pin_memory()
    target = torch.zeros(1 << 19).pin_memory()
    assert source.is_pinned()
    assert not torch.randn(3).is_pinned()
    device = torch.empty(1 << 19, device=SOFT)
    hold()
    device.copy_(source, non_blocking=True)
    target.copy_(device, non_blocking=True)
    assert target.abs().sum() == 0
    let_go()
    torch.soft.synchronize()
    assert target.equal(source)


def test_a_pageable_source_may_be_changed_after_the_copy_was_launched() -> None:
    source = torch.ones(10)
    hold()
    device = source.to(SOFT, non_blocking=True)
    source.zero_()
    let_go()
    assert device.sum().item() == 10


def test_numpy_is_refused_and_values_are_readable() -> None:
    value = torch.ones(3, device=SOFT)
    with pytest.raises(TypeError):
        value.numpy()
    assert value.tolist() == [1, 1, 1]
    assert "device='soft:0'" in repr(value)


def test_save_load_and_deepcopy_keep_values() -> None:
    model = torch.nn.Linear(3, 3).to(SOFT)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    assert torch.load(buffer)["weight"].device.type == SOFT
    buffer.seek(0)
    on_host = torch.load(buffer, map_location="cpu")
    assert on_host["weight"].equal(model.weight.detach().cpu())
    assert copy.deepcopy(model).weight.cpu().equal(model.weight.cpu())


def test_out_arguments_are_resized_and_may_be_strided() -> None:
    host = torch.randn(4, 5)
    device = host.to(SOFT)
    out = torch.empty(0, device=SOFT)
    torch.add(device, 1, out=out)
    assert out.cpu().equal(host + 1)
    out = torch.empty(5, 4, device=SOFT).t()
    torch.mul(device, 2, out=out)
    assert out.cpu().equal(host * 2)
    assert out.stride() == (1, 4)


def test_operators_whose_shape_depends_on_data_equal_the_cpu() -> None:
    host = torch.randn(20)
    device = host.to(SOFT)
    assert device[device > 0].cpu().equal(host[host > 0])
    assert device.nonzero().cpu().equal(host.nonzero())
    assert device.unique().cpu().equal(host.unique())
    device[2:4] = 7
    host[2:4] = 7
    device[torch.tensor([0, 1], device=SOFT)] = 1.0
    host[:2] = 1
    assert device.cpu().equal(host)
    assert device[torch.tensor([1, 2])].cpu().equal(host[[1, 2]])


def test_complex_numbers_fft_and_linear_algebra_equal_the_cpu() -> None:
    host = torch.randn(4, 4)
    device = host.to(SOFT)
    assert torch.fft.fft(device).cpu().equal(torch.fft.fft(host))
    assert torch.linalg.inv(device).cpu().equal(torch.linalg.inv(host))
    assert torch.view_as_real(torch.fft.fft(device).conj()[0].resolve_conj()).shape == (4, 2)


def test_autocast_casts_by_the_lists() -> None:
    layer, value = torch.nn.Linear(8, 8).to(SOFT), torch.randn(2, 8, device=SOFT)
    with torch.autocast(SOFT, dtype=torch.bfloat16):
        product = layer(value)
        assert product.dtype == torch.bfloat16
        assert product.softmax(-1).dtype == torch.float32
        product.softmax(-1).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("fused", [False, True])
def test_fused_and_foreach_optimizers_equal_the_cpu(fused: bool) -> None:
    results = []
    for device in ("cpu", SOFT):
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), fused=fused, foreach=not fused)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 8, device=device)).square().sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        results.append(model.weight.detach().cpu())
    assert results[0].equal(results[1])


def test_compile_works_with_the_eager_backend() -> None:
    compiled = torch.compile(lambda value: (value + 1).relu(), backend="eager")
    assert compiled(torch.zeros(3, device=SOFT)).tolist() == [1, 1, 1]


def test_a_parameter_that_moves_stays_the_same_object() -> None:
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    second.weight = first.weight
    optimizer = torch.optim.SGD(first.parameters(), lr=1.0)
    both = torch.nn.Sequential(first, second).to(SOFT)
    assert first.weight is second.weight
    before = first.weight.detach().clone()
    both(torch.ones(2, 3, device=SOFT)).sum().backward()
    optimizer.step()
    assert first.weight.device.type == SOFT
    assert not first.weight.equal(before)
