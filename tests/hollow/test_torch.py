"""Torch's own CUDA build on the hollow device, with torch's own allocator: what other allocators are held against."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hollow.board import Board
from hollow.conftest import MakeRemote
from hollow.remote import Remote, RemoteError

MiB = 1 << 20
PRELUDE = """
import gc, torch
import torch.nn.functional as F
from torch import nn
MiB = 1 << 20
def fresh():
    gc.collect(); torch.cuda.synchronize(); torch.cuda.empty_cache(); torch.cuda.reset_peak_memory_stats()
"""


@pytest.fixture(scope="module")
def torch_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    """One process with torch for the tests that leave it as they found it."""
    path = tmp_path_factory.mktemp("hollow") / "board"
    remote = Remote(path, PRELUDE, HOLLOW_MEMORY="8G", HOLLOW_DEVICES="2")
    yield remote
    remote.close()


@pytest.fixture
def torch_on(torch_process: Remote) -> Remote:
    torch_process("fresh()")
    return torch_process


def test_torch_finds_the_devices(torch_on: Remote) -> None:
    assert torch_on("torch.cuda.is_available()")
    assert torch_on("torch.cuda.device_count()") == 2
    assert torch_on("torch.cuda.get_device_name()") == "Hollow GPU"
    assert torch_on("torch.cuda.get_device_properties(0).total_memory") == 8 << 30
    assert torch_on("torch.backends.cudnn.is_available()")


def test_copies_and_fills_keep_their_numbers(torch_on: Remote) -> None:
    torch_on("numbers = torch.randn(1000, 1000)")
    assert torch_on("torch.equal(numbers.cuda().cpu(), numbers)")
    assert torch_on("torch.full((300,), 2.5, device='cuda').tolist() == [2.5] * 300")
    assert torch_on("torch.zeros(300, dtype=torch.int64, device='cuda').sum().shape == ()")
    assert torch_on("torch.equal(numbers.to('cuda:1').to('cuda:0').cpu(), numbers)")


def test_memory_counters_follow_tensors(torch_on: Remote) -> None:
    torch_on("before = torch.cuda.memory_allocated(); tensor = torch.empty(64 * MiB, dtype=torch.uint8, device='cuda')")
    assert torch_on("torch.cuda.memory_allocated() - before") == 64 * MiB
    torch_on("del tensor")
    assert torch_on("torch.cuda.memory_allocated() - before") == 0
    assert torch_on("torch.cuda.max_memory_allocated() - before") == 64 * MiB
    assert torch_on("torch.cuda.memory_stats()['reserved_bytes.all.current']") >= 64 * MiB
    assert torch_on("sum(segment['total_size'] for segment in torch.cuda.memory_snapshot())") >= 64 * MiB
    torch_on("free = torch.cuda.mem_get_info()[0]; torch.cuda.empty_cache()")
    assert torch_on("torch.cuda.mem_get_info()[0] - free") == 64 * MiB


def test_an_allocation_beyond_the_device_is_torchs_out_of_memory_error(torch_on: Remote) -> None:
    with pytest.raises(RemoteError) as caught:
        torch_on("torch.empty(9 << 30, dtype=torch.uint8, device='cuda')")
    assert caught.value.kind == "OutOfMemoryError"
    assert "Tried to allocate 9.00 GiB" in caught.value.text
    torch_on("torch.empty(MiB, device='cuda')")


def test_a_training_step_runs_in_the_background(process: MakeRemote) -> None:
    remote = process(PRELUDE, HOLLOW_KERNEL_US="3600000000", HOLLOW_DEPTH="100000")
    remote("net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))")
    remote("net = net.cuda()")  # copies wait for nothing: no kernel is before them
    remote("x = torch.empty(32, 64, device='cuda')")
    remote("net(x).sum().backward()")
    assert not remote("torch.cuda.current_stream().query()")


def test_a_sleep_takes_its_cycles_of_the_devices_time(torch_on: Remote) -> None:
    torch_on("start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))")
    torch_on("start.record(); torch.cuda._sleep(141_000_000); end.record(); end.synchronize()")
    assert torch_on("start.elapsed_time(end)") >= 100


def test_pinned_memory_is_not_reused_while_a_copy_reads_it(process: MakeRemote) -> None:
    remote = process(PRELUDE)
    remote("host = torch.ones(1000).pin_memory(); address = host.data_ptr(); out = torch.empty(1000, device='cuda')")
    remote("torch.cuda._sleep(10**15); out.copy_(host, non_blocking=True); del host")
    assert remote("torch.empty(1000, pin_memory=True).data_ptr() != address")


def test_memory_on_another_stream_is_reused_after_its_event(torch_on: Remote) -> None:
    torch_on("side = torch.cuda.Stream(); tensor = torch.empty(64 * MiB, dtype=torch.uint8, device='cuda')")
    torch_on("address = tensor.data_ptr(); tensor.record_stream(side)")
    torch_on("side.wait_stream(torch.cuda.current_stream()); del tensor; torch.cuda.synchronize()")
    torch_on("again = torch.empty(64 * MiB, dtype=torch.uint8, device='cuda')")
    assert torch_on("again.data_ptr() == address")
    torch_on("del again")


def test_expandable_segments_map_and_unmap(process: MakeRemote, board: Board) -> None:
    remote = process(PRELUDE, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    remote("tensor = torch.empty(100 * MiB, dtype=torch.uint8, device='cuda'); tensor.fill_(7)")
    assert remote("tensor[-3:].cpu().tolist()") == [7, 7, 7]
    assert board.calls()["cuMemMap"].calls >= 5
    remote("del tensor; torch.cuda.empty_cache()")
    assert board.calls()["cuMemUnmap"].calls >= 1
    assert board.used() == 16 * MiB


def test_a_pinned_loader_feeds_the_device(torch_on: Remote) -> None:
    torch_on("from torch.utils.data import DataLoader, TensorDataset")
    torch_on("data = TensorDataset(torch.arange(64.0))")
    torch_on("loader = DataLoader(data, batch_size=16, pin_memory=True)")
    assert torch_on("[float(x.to('cuda', non_blocking=True).cpu()[0]) for x, in loader]") == [0, 16, 32, 48]


def test_a_graph_captures_allocations_in_a_pool_of_its_own(torch_on: Remote) -> None:
    torch_on("graph = torch.cuda.CUDAGraph(); x = torch.zeros(1000, device='cuda')")
    torch_on("with torch.cuda.graph(graph):\n    y = torch.full_like(x, 3.0)\n    z = torch.empty(MiB, device='cuda')")
    torch_on("graph.replay(); torch.cuda.synchronize()")
    assert torch_on("y.cpu().tolist() == [3.0] * 1000")
    assert torch_on("any(tuple(s['segment_pool_id']) != (0, 0) for s in torch.cuda.memory_snapshot())")
    torch_on("graph.reset(); del graph, x, y, z")


def test_mixed_precision_and_checkpoints_train(torch_on: Remote) -> None:
    torch_on("from torch.utils.checkpoint import checkpoint")
    torch_on("net = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256)).cuda()")
    torch_on("optimizer = torch.optim.AdamW(net.parameters()); scaler = torch.amp.GradScaler('cuda')")
    torch_on("x = torch.ones(8, 256, device='cuda')")
    torch_on("with torch.autocast('cuda'): loss = checkpoint(net, x, use_reentrant=False).sum()")
    torch_on("scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update(); torch.cuda.synchronize()")
    torch_on("del net, optimizer, scaler, loss, x")


def test_a_bad_address_reaches_torch_as_an_illegal_memory_access(process: MakeRemote) -> None:
    remote = process(PRELUDE)
    remote("tensor = torch.empty(64 * MiB, dtype=torch.uint8, device='cuda')")
    remote("import ctypes; torch.cuda.cudart(); from hollow.place import LIBRARY")
    remote("ctypes.CDLL(str(LIBRARY)).cudaFree(ctypes.c_void_p(tensor.data_ptr()))")
    with pytest.raises(RemoteError) as caught:
        remote("tensor.fill_(1); torch.cuda.synchronize()")
    assert "illegal memory access" in caught.value.text
