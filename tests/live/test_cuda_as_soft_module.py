"""What torch.cuda answers for the software GPU, and what it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from cuda_name import cuda_is_soft
from neaptide.capture.measured import measure
from neaptide.devices.soft import as_cuda as cuda_as_soft
from neaptide.fitting.link import spec_of

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture(autouse=True)
def cuda() -> Iterator[None]:
    with cuda_is_soft():
        yield


class TestTheModule:
    def test_torch_cuda_says_that_there_is_one_gpu(self) -> None:
        assert torch.cuda.is_available()
        assert torch.cuda.is_bf16_supported()
        assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
        properties = torch.cuda.get_device_properties("cuda")
        assert properties.name == torch.cuda.get_device_name(0)
        assert (properties.major, properties.minor) == torch.cuda.get_device_capability()
        assert properties.total_memory == torch.cuda.mem_get_info()[1]
        torch.cuda.set_device(0)
        torch.cuda.set_device(torch.device("cuda"))
        with torch.cuda.device(0), torch.cuda.device_of(torch.ones(1, device="cuda")):
            pass
        assert torch.cuda.is_initialized()
        with pytest.raises(RuntimeError, match="invalid device ordinal: cuda:1 "):
            torch.cuda.set_device(1)

    def test_streams_and_events_work_as_on_cuda(self) -> None:
        stream = torch.cuda.Stream()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
        assert isinstance(start, torch.cuda.Event)
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        start.record()
        with torch.cuda.stream(stream):
            assert torch.cuda.current_stream() == stream
            made = torch.ones(8, device="cuda") * 2
        made.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.current_stream().wait_event(stream.record_event())
        end.record(torch.cuda.current_stream())
        end.synchronize()
        assert made.sum().item() == 16
        assert start.elapsed_time(end) >= 0
        assert end.query()
        stream.synchronize()
        assert stream.query()
        assert (stream.priority, torch.cuda.Stream.priority_range()) == (0, (0, 0))
        assert stream.cuda_stream != torch.cuda.default_stream().cuda_stream
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == torch.cuda.default_stream()

    def test_memory_is_that_of_soft(self) -> None:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        held = torch.empty(1 << 20, device="cuda")
        assert torch.cuda.memory_allocated() == torch.soft.memory_allocated() >= before + held.nbytes
        assert torch.cuda.max_memory_allocated("cuda:0") >= before + held.nbytes
        assert torch.cuda.memory_reserved() == torch.cuda.memory.memory_reserved() > 0
        assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
        assert torch.cuda.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] > 0
        assert "Allocated" in torch.cuda.memory_summary()
        free, total = torch.cuda.mem_get_info()
        assert torch.cuda.device_memory_used() == total - free
        torch.cuda.ipc_collect()

    def test_the_limit_in_the_settings_of_the_allocator_is_followed(self) -> None:
        try:
            torch.cuda.memory._set_allocator_settings("expandable_segments:True, per_process_memory_fraction:0.25")
            assert torch.cuda.get_per_process_memory_fraction() == 0.25
            with pytest.raises(torch.cuda.OutOfMemoryError, match="set_per_process_memory_fraction"):
                torch.empty(torch.cuda.mem_get_info()[1] // 3, dtype=torch.uint8, device="cuda")
            torch.cuda.memory._set_allocator_settings("max_split_size_mb:64")
            assert torch.cuda.get_per_process_memory_fraction() == 0.25
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)

    def test_running_out_of_memory_raises_the_error_that_programs_catch(self) -> None:
        with pytest.raises(torch.cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate 1048576 MiB"):
            torch.empty((1 << 40) + 1000, dtype=torch.uint8, device="cuda")

    def test_libraries_that_try_smaller_batches_know_the_error(self) -> None:
        accelerate = pytest.importorskip("accelerate.utils.memory")
        lightning = pytest.importorskip("lightning.pytorch.utilities.memory")
        with pytest.raises(torch.cuda.OutOfMemoryError) as raised:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        assert accelerate.should_reduce_batch_size(raised.value)
        assert lightning.is_oom_error(raised.value)

    def test_profiling_calls_do_nothing(self) -> None:
        torch.cuda.nvtx.range_push("a")
        torch.cuda.nvtx.mark("b")
        torch.cuda.nvtx.range_pop()
        with torch.cuda.nvtx.range("c"), torch.cuda.profiler.profile():
            torch.cuda.cudart().cudaMemGetInfo(0)
        torch.cuda.synchronize()

    def test_calls_of_soft_alone_are_not_on_torch_cuda(self) -> None:
        alone = {"evict", "restore", "close_launch_gate", "set_in_flight_cap", "log_kernels", "begin_iteration"}
        assert alone <= set(dir(torch.soft))  # type: ignore[attr-defined]
        assert not alone & set(dir(torch.cuda))

    def test_fitting_finds_the_figures_of_soft(self) -> None:
        assert spec_of(torch.device("cuda")).name == "soft"

    def test_capture_measures_a_step_as_on_soft(self) -> None:
        model = nn.Linear(8, 8).cuda()
        x = torch.ones(4, 8, device="cuda")

        def step() -> None:
            model(x).sum().backward()

        as_cuda = measure(step, device="cuda", timed=1)
        cuda_as_soft.uninstall()
        as_soft = measure(step, device="soft", timed=1)
        assert list(as_cuda.ops.name) == list(as_soft.ops.name)
        assert sorted(as_cuda.tensors.bytes) == sorted(as_soft.tensors.bytes)


class TestWhatCannotBe:
    @pytest.mark.parametrize("name", ["CUDAGraph", "graph", "make_graphed_callables", "MemPool", "utilization"])
    def test_a_call_that_soft_cannot_have_is_refused_in_one_line(self, name: str) -> None:
        with pytest.raises(RuntimeError, match=rf"^torch\.cuda\.{name}: the software GPU .* has no [^\n]*$"):
            getattr(torch.cuda, name)(None)

    def test_compile_prints_a_line_once_and_returns_the_model_unchanged(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        model = nn.Linear(2, 2).cuda()
        assert torch.compile(model) is model
        assert torch.compile(mode="max-autotune")(model) is model
        model.compile()
        assert model(torch.ones(1, 2, device="cuda")).is_cuda
        said = [line for line in capfd.readouterr().err.splitlines() if "compile" in line]
        assert said == ["neaptide: torch.compile makes no code for the software GPU; running without it"]

    def test_refused_classes_stay_classes(self) -> None:
        kinds = [getattr(torch.cuda, name) for name in ("CUDAGraph", "Stream", "Event", "FloatTensor", "device")]
        assert all(isinstance(kind, type) and kind | None for kind in kinds)  # as in annotations

    def test_the_profiler_prints_once_that_it_records_the_cpu_alone(self, capfd: pytest.CaptureFixture[str]) -> None:
        for _ in range(2):
            with torch.autograd.profiler.profile(use_device="cuda") as profile:
                torch.ones(2, device="cuda").add(1)
            assert profile.key_averages()
        assert capfd.readouterr().err.count("profiler cannot look into the software GPU") == 1

    def test_a_memory_history_is_empty_and_a_line_says_so_once(
        self, capfd: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        for _ in range(2):
            torch.cuda.memory._record_memory_history(max_entries=100)
        kept = torch.ones(2, device="cuda")
        torch.cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
        torch.cuda.memory._record_memory_history(enabled=None)
        assert torch.cuda.memory._snapshot()["segments"] == []
        assert pickle.loads((tmp_path / "snapshot.pickle").read_bytes())["device_traces"] == []
        assert capfd.readouterr().err.count("keeps no memory history") == 1
        assert kept.is_cuda

    @pytest.mark.filterwarnings("ignore:Attempted to get default timeout")
    def test_nccl_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match="NCCL"):
            torch.distributed.init_process_group("nccl", rank=0, world_size=1, store=torch.distributed.HashStore())
