"""The device behaves as a GPU does."""

from __future__ import annotations

import copy
import io
import os
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from neaptide.devices.soft import native

SOFT = "soft"


def hold() -> None:
    """Kernels launched from here on wait."""
    torch.soft.close_execution_gate()


def let_go() -> None:
    torch.soft.open_execution_gate()


# Asynchrony and errors.


def test_launching_runs_ahead_of_the_kernels_also_in_the_backward_pass() -> None:
    weight = torch.randn(8, 8, device=SOFT, requires_grad=True)
    (weight @ weight).sum().backward()  # every signature has been seen
    torch.soft.synchronize()
    hold()
    (weight @ weight).sum().backward()
    assert torch.soft.in_flight() >= 4
    let_go()
    torch.soft.synchronize()
    assert torch.soft.in_flight() == 0


def test_a_value_error_is_raised_at_the_next_synchronization_and_once() -> None:
    table = torch.randn(10, 4, device=SOFT)
    F.embedding(torch.tensor([99], device=SOFT), table)
    with pytest.raises(IndexError, match="out of range"):
        torch.soft.synchronize()
    torch.soft.synchronize()
    assert (table * 0 + 1).sum().item() == 40


def test_a_value_error_of_a_known_signature_is_raised_late_too() -> None:
    table = torch.randn(10, 4, device=SOFT)
    F.embedding(torch.tensor([3], device=SOFT), table)
    torch.soft.synchronize()
    hold()
    F.embedding(torch.tensor([99], device=SOFT), table)
    let_go()
    with pytest.raises(IndexError):
        torch.soft.synchronize()


def test_a_shape_error_is_raised_at_launch() -> None:
    left, right = torch.randn(3, 4, device=SOFT), torch.randn(5, 6, device=SOFT)
    hold()
    timer = threading.Timer(5, let_go)  # a first launch of this operator runs to see its shapes
    timer.start()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        left @ right
    timer.cancel()


def test_tensors_of_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.randn(3, device=SOFT) + torch.randn(3)


def test_a_host_scalar_is_captured_at_launch() -> None:
    scalar, ones = torch.tensor(2.0), torch.ones(3, device=SOFT)
    ones * scalar
    hold()
    product = ones * scalar
    scalar.fill_(7)
    let_go()
    assert product.tolist() == [2, 2, 2]


@pytest.mark.parametrize("cap", [1, 4, 64])
def test_no_more_kernels_are_in_flight_than_the_cap_allows(cap: int) -> None:
    torch.soft.set_in_flight_cap(cap)
    value, most = torch.zeros(1000, device=SOFT), 0
    for _ in range(300):
        value = value + 1
        most = max(most, torch.soft.in_flight())
    assert most <= cap
    assert value[0].item() == 300


def test_a_launch_waits_at_a_closed_gate_without_the_interpreter_lock() -> None:
    value = torch.ones(3, device=SOFT)
    value + 1
    torch.soft.synchronize()
    launched = native.launched()
    torch.soft.close_launch_gate()
    thread = threading.Thread(target=lambda: value.add_(1))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert native.launched() == launched
    torch.soft.open_launch_gate()
    thread.join()
    assert value.tolist() == [2, 2, 2]


def test_a_launch_waits_for_its_permit_only_when_one_is_needed() -> None:
    torch.soft.begin_iteration()
    assert torch.ones(2, device=SOFT).sum().item() == 2  # everything is permitted on a private board
    torch.soft.end_iteration()


# Streams and events.


def test_streams_run_side_by_side_and_events_order_them() -> None:
    first, second = torch.soft.Stream(), torch.soft.Stream()
    base = torch.arange(1000.0, device=SOFT)
    torch.soft.synchronize()
    expected = torch.arange(1000.0) * 2 + 1
    for round_number in range(100):
        with first:
            doubled = base * 2
            done = torch.soft.Event()
            done.record()
        second.wait_event(done)
        with second:
            result = doubled + 1
            doubled.record_stream(second)
        del doubled
        with first:
            torch.full((1000,), -1.0, device=SOFT)  # would land in the freed block if record_stream did nothing
        if round_number % 20 == 0:
            second.synchronize()
            assert result.cpu().equal(expected)


def test_a_stream_that_waits_does_not_hold_up_another() -> None:
    waiting, free = torch.soft.Stream(), torch.soft.Stream()
    with waiting:
        native.sleep_on_stream(0.2)
    with free:
        torch.ones(3, device=SOFT)
    free.synchronize()
    assert not waiting.query()
    waiting.synchronize()


def test_events_measure_time_on_the_stream() -> None:
    begin, end = torch.soft.Event(enable_timing=True), torch.soft.Event(enable_timing=True)
    begin.record()
    native.sleep_on_stream(0.02)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) >= 20


def test_the_accelerator_interface_finds_the_device() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device(SOFT)
    assert torch.accelerator.memory_allocated() == torch.soft.memory_allocated()
    assert torch.accelerator.current_stream().device.type == SOFT
    assert torch.soft.get_device_properties().multi_processor_count >= 1


# Copies.


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


def test_save_load_and_deepcopy() -> None:
    model = torch.nn.Linear(3, 3).to(SOFT)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    assert torch.load(buffer)["weight"].device.type == SOFT
    buffer.seek(0)
    on_host = torch.load(buffer, map_location="cpu")
    assert on_host["weight"].equal(model.weight.detach().cpu())
    assert copy.deepcopy(model).weight.cpu().equal(model.weight.cpu())


# Operators.


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


def test_operators_whose_shape_depends_on_data() -> None:
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


def test_complex_fft_and_linear_algebra() -> None:
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


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_networks_are_near_the_cpu(kind: type[torch.nn.RNNBase]) -> None:
    gradients = []
    for device in ("cpu", SOFT):
        torch.manual_seed(0)
        network = kind(4, 5, num_layers=2, bidirectional=True).to(device)
        output, _ = network(torch.randn(3, 2, 4).to(device))
        output.square().sum().backward()
        gradients.append([weight.grad.cpu() for weight in network.parameters()])
    for actual, expected in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_compile_with_the_eager_backend() -> None:
    compiled = torch.compile(lambda value: (value + 1).relu(), backend="eager")
    assert compiled(torch.zeros(3, device=SOFT)).tolist() == [1, 1, 1]


# Random numbers.


def test_the_same_seed_gives_the_numbers_of_the_cpu() -> None:
    torch.manual_seed(1)
    device = [torch.rand(4, device=SOFT), torch.randn(40, device=SOFT), torch.randperm(5, device=SOFT)]
    device.append(F.dropout(torch.ones(50, device=SOFT), 0.1))
    torch.manual_seed(1)
    host = [torch.rand(4), torch.randn(40), torch.randperm(5), F.dropout(torch.ones(50), 0.1)]
    assert all(a.cpu().equal(b) for a, b in zip(device, host, strict=True))


def test_random_numbers_follow_the_launches_and_not_the_streams() -> None:
    def draw(streams: list[torch.Stream]) -> list[torch.Tensor]:
        torch.manual_seed(3)
        torch.soft.synchronize()
        values = []
        for stream in streams:
            with stream:
                values.append(F.dropout(torch.ones(100, device=SOFT), 0.5))
                values.append(torch.rand(10, device=SOFT))
        torch.soft.synchronize()
        return [value.cpu() for value in values]

    one, two = torch.soft.Stream(), torch.soft.Stream()
    assert all(a.equal(b) for a, b in zip(draw([one, two, one]), draw([one, one, one]), strict=True))


def test_dropout_does_not_make_launching_wait() -> None:
    value = torch.ones(100, device=SOFT)
    F.dropout(value, 0.5)
    F.dropout(value, 0.5)
    torch.soft.synchronize()
    hold()
    for _ in range(5):
        F.dropout(value, 0.5)
    assert torch.soft.in_flight() >= 10
    torch.manual_seed(1)  # does not wait either
    let_go()


def test_a_generator_of_its_own() -> None:
    generator = torch.Generator(device=SOFT).manual_seed(3)
    first = torch.randn(5, generator=generator, device=SOFT)
    generator.manual_seed(3)
    assert torch.randn(5, generator=generator, device=SOFT).equal(first)


def test_checkpointing_replays_the_same_dropout() -> None:
    layer = torch.nn.Linear(8, 8).to(SOFT)
    gradients = []
    for wrapped in (False, True):
        torch.manual_seed(4)
        value = torch.ones(4, 8, device=SOFT, requires_grad=True)

        def forward(given: torch.Tensor) -> torch.Tensor:
            return F.dropout(layer(given), 0.5)

        output = checkpoint(forward, value, use_reentrant=False) if wrapped else forward(value)
        output.square().sum().backward()
        gradients.append(value.grad.cpu())
    assert gradients[0].equal(gradients[1])


# Memory.


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


def test_memory_is_counted_and_comes_back() -> None:
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


def test_evicted_memory_comes_back_as_it_was() -> None:
    value = torch.arange(1 << 20, device=SOFT)
    held = torch.soft.memory_reserved()
    assert torch.soft.evict() == held
    assert torch.soft.memory_reserved() == 0
    torch.soft.restore()
    assert value.cpu().equal(torch.arange(1 << 20))


# Processes.


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


# The logger.


def test_the_kernel_log_tells_what_ran_when() -> None:
    value = torch.ones(1 << 18, device=SOFT)
    value + 1
    torch.soft.synchronize()
    with torch.soft.log_kernels():
        for _ in range(3):
            value = value + 1
        torch.soft.synchronize()
    log = torch.soft.kernel_log()
    assert [record.name for record in log] == ["aten::add.Tensor"] * 3
    assert len({record.signature for record in log}) == 1
    for record in log:
        assert record.launch_ns <= record.start_ns <= record.end_ns
    assert log[1].taken_bytes == 1 << 20
    assert time.monotonic_ns() > log[-1].end_ns
