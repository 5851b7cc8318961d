"""Where there is no GPU, cuda is a name of the software GPU, and torch.cuda answers for it."""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("NEAPTIDE_SOFT_SMS", "1")  # with one SM, results equal those of one CPU thread bit by bit
os.environ.setdefault("NEAPTIDE_SOFT_CAPACITY", "1GiB")
os.environ.setdefault("NEAPTIDE_SOFT_WAIT", "5")

import torch
from torch import nn

import neaptide.devices.soft
from neaptide.capture.measured import measured
from neaptide.live import cuda_as_soft
from neaptide.live.cuda_as_soft import names

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def cuda() -> Iterator[None]:
    cuda_as_soft.install()
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
    cuda_as_soft.uninstall()


def test_it_is_said_once_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    try:
        assert cuda_as_soft.install()
        assert cuda_as_soft.install()
        assert cuda_as_soft.installed()
    finally:
        cuda_as_soft.uninstall()
    assert capfd.readouterr().err == "neaptide: there is no GPU here, so cuda means the software GPU (soft)\n"


def test_nothing_is_done_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not cuda_as_soft.install()
    assert not cuda_as_soft.installed()
    assert str(torch.device("soft")) == "soft"
    assert capfd.readouterr().err == ""


def test_it_can_be_taken_back_without_a_trace() -> None:
    owners = (torch, torch._C, torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams, torch.cuda.graphs)
    owners = (*owners, torch.cuda.profiler, torch.cuda.nvtx, torch.backends.cudnn, torch.Tensor)
    before = [dict(vars(owner)) for owner in owners]
    cuda_as_soft.install()
    tensor = torch.ones(2, device="cuda")
    cuda_as_soft.uninstall()
    assert [dict(vars(owner)) for owner in owners] == before
    assert str(tensor.device) == "soft:0"
    assert tensor.is_soft
    assert not tensor.is_cuda
    assert not torch.cuda.is_available()
    assert not cuda_as_soft.installed()
    with pytest.raises((RuntimeError, AssertionError)):
        torch.ones(2, device="cuda")


def test_what_fails_halfway_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("neaptide.live.cuda_as_soft.answers.patch", fail)
    with pytest.raises(RuntimeError, match="no"):
        cuda_as_soft.install()
    assert not cuda_as_soft.installed()
    assert str(torch.device("soft")) == "soft"
    assert not hasattr(torch._C, "_scatter")


def test_an_unexpected_torch_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strange:
        def neaptide_join_names(self) -> int:
            return 0

    monkeypatch.setattr(names, "_library", Strange)
    with pytest.raises(RuntimeError, match=r"^cuda cannot be given soft: .*torch 2\.13"):
        cuda_as_soft.install()


@pytest.mark.usefixtures("cuda")
class TestNames:
    @pytest.mark.parametrize("device", ["cuda", "cuda:0", 0, "soft"])
    def test_every_way_to_name_the_device_gives_soft(self, device: str | int) -> None:
        soft = torch.device("soft", 0)
        linear = nn.Linear(2, 2)
        made = [
            torch.zeros(2, device=device),
            torch.empty_like(torch.zeros(2), device=device),
            torch.tensor([1.0], device=torch.device(device)),
            torch.arange(3, device=device),
            torch.zeros(2).to(device),
            torch.zeros(2).to(device=device, dtype=torch.float16),
            torch.zeros(2).to(torch.zeros(1, device=device)),
            torch.zeros(2).new_zeros(2, device=device),
            torch.zeros(2).cuda(),
            torch.zeros(2).cuda(0, non_blocking=True),
            linear.to(device).weight,
            nn.Linear(2, 2, device=device).bias,
            nn.Linear(2, 2).cuda().bias,
        ]
        assert all(tensor.device == soft for tensor in made)
        assert torch.cuda.memory_allocated() > 0

    def test_the_device_reads_as_cuda(self) -> None:
        device = torch.ones(1, device="soft").device
        assert (device.type, device.index, str(device)) == ("cuda", 0, "cuda:0")
        assert repr(torch.device("cuda", 0)) == "device(type='cuda', index=0)"
        assert torch.device("cuda:0") == torch.device("soft", 0) == copy.deepcopy(device)
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert torch.get_device_module("cuda") is torch.cuda
        assert "device='cuda:0'" in repr(torch.ones(1, device="cuda"))

    def test_other_devices_keep_their_names(self) -> None:
        assert torch.ones(1).device.type == "cpu"
        assert not torch.ones(1).is_cuda
        assert torch.ones(1, device="meta").device.type == "meta"
        with pytest.raises(RuntimeError, match="device type at start of device string"):
            torch.device("cudaa")
        with pytest.raises(RuntimeError, match="must be cuda device"):
            torch.ones(1).cuda("cpu")

    def test_contexts_and_defaults(self) -> None:
        with torch.device("cuda"):
            assert torch.zeros(1).is_cuda
        torch.set_default_device("cuda")
        assert torch.zeros(1).is_cuda
        assert nn.Linear(1, 1).weight.is_cuda
        torch.set_default_device(None)
        assert not torch.zeros(1).is_cuda

    def test_the_old_default_type(self) -> None:
        torch.set_default_tensor_type("torch.cuda.HalfTensor")
        assert torch.zeros(1).type() == "torch.cuda.HalfTensor"

    def test_old_types_convert_and_are_told_apart(self) -> None:
        assert torch.ones(2).type(torch.cuda.LongTensor).type() == "torch.cuda.LongTensor"
        assert torch.ones(2).type("torch.cuda.HalfTensor").dtype == torch.float16
        assert torch.ones(2, device="cuda").type(torch.float64).type() == "torch.cuda.DoubleTensor"
        assert not torch.ones(2, device="cuda").type("torch.FloatTensor").is_cuda
        assert isinstance(torch.cuda.FloatTensor([1.0]), torch.cuda.FloatTensor)
        assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)

    def test_files_name_cuda_and_go_where_they_are_sent(self) -> None:
        file = io.BytesIO()
        torch.save({"tensor": torch.ones(2, device="cuda"), "device": torch.device("cuda")}, file)
        assert b"cuda:0" in file.getvalue()
        assert b"soft" not in file.getvalue()
        for where, expected in ((None, "cuda"), ("cuda", "cuda"), ("cuda:0", "cuda"), ("cpu", "cpu")):
            file.seek(0)
            assert torch.load(file, map_location=where)["tensor"].device.type == expected
        file.seek(0)
        assert torch.load(file, map_location={"cuda:0": "cpu"})["tensor"].device.type == "cpu"
        file.seek(0)
        assert torch.load(file, map_location=lambda storage, _: storage.cuda(0))["tensor"].is_cuda

    def test_files_written_on_soft_are_read(self) -> None:
        cuda_as_soft.uninstall()
        file = io.BytesIO()
        torch.save(torch.ones(2, device="soft"), file)
        cuda_as_soft.install()
        file.seek(0)
        assert torch.load(file).is_cuda


@pytest.mark.usefixtures("cuda")
class TestTraining:
    def test_a_parameter_that_moves_stays_itself(self) -> None:
        model = nn.Linear(2, 2)
        weight = model.weight
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)  # before the move, as many programs have it
        model.cuda()
        assert model.weight is weight
        assert weight.is_cuda
        before = weight.detach().clone()
        model(torch.ones(1, 2, device="cuda")).sum().backward()
        optimizer.step()
        assert torch.equal(model.weight, before - 1)
        model.cpu()
        assert model.weight is weight
        assert weight.grad is not None
        assert not weight.grad.is_cuda

    def test_autocast_means_soft_in_every_spelling(self) -> None:
        a = torch.ones(2, 2, device="cuda")
        assert not torch.is_autocast_enabled()
        with torch.autocast("cuda"):
            assert (a @ a).dtype == torch.float16 == torch.get_autocast_gpu_dtype()
            assert torch.is_autocast_enabled()
            assert torch.is_autocast_enabled("cuda")
            with torch.autocast("cuda", enabled=False):
                assert (a @ a).dtype == torch.float32
        with pytest.warns(FutureWarning), torch.cuda.amp.autocast(dtype=torch.bfloat16):
            assert (a @ a).dtype == torch.bfloat16

    def test_random_numbers_are_those_of_soft(self) -> None:
        torch.cuda.manual_seed_all(3)
        first = torch.randn(4, device="cuda").cpu()
        torch.soft.manual_seed(3)
        assert torch.equal(torch.randn(4, device="soft").cpu(), first)
        generator = torch.Generator(device="cuda").manual_seed(3)
        assert torch.equal(torch.randn(4, device="cuda", generator=generator).cpu(), first)
        assert generator.device.type == "cuda"
        states = torch.cuda.get_rng_state_all()
        with torch.random.fork_rng():
            torch.randn(4, device="cuda")
        assert torch.equal(torch.cuda.get_rng_state("cuda:0"), states[0])
        drawn = torch.randn(4, device="cuda")
        torch.cuda.set_rng_state(states[0], 0)
        assert torch.equal(torch.randn(4, device="cuda"), drawn)

    def test_checkpointing_draws_the_same_masks_again(self) -> None:
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).cuda()
        x = torch.ones(4, 8, device="cuda")
        gradients = []
        for wrapped in (False, True):
            torch.manual_seed(5)
            out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False) if wrapped else model(x)
            model.zero_grad()
            out.sum().backward()
            gradients.append(model[0].weight.grad.clone())
        assert torch.equal(*gradients)

    def test_shared_parameters_stay_shared(self) -> None:
        model = nn.Sequential(nn.Embedding(4, 2), nn.Linear(2, 4, bias=False))
        model[1].weight = model[0].weight
        model.to("cuda")
        assert model[1].weight is model[0].weight

    def test_an_encoder_takes_a_padding_mask_in_evaluation(self) -> None:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 1).cuda().eval()
        mask = torch.tensor([[False, False, True], [False, False, False]], device="cuda")
        with torch.no_grad():
            assert encoder(torch.ones(2, 3, 8, device="cuda"), src_key_padding_mask=mask).shape == (2, 3, 8)

    def test_data_parallel_with_one_device(self) -> None:
        model = nn.DataParallel(nn.Linear(3, 2)).cuda()
        out = model(torch.ones(4, 3))
        out.sum().backward()
        assert out.is_cuda
        assert model.module.weight.grad.is_cuda

    def test_pinned_memory(self) -> None:
        loader = torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2, pin_memory=True)
        assert all(batch.is_pinned() and batch.cuda(non_blocking=True).is_cuda for batch in loader)


@pytest.mark.usefixtures("cuda")
class TestTheModule:
    def test_it_says_that_there_is_one_gpu(self) -> None:
        assert torch.cuda.is_available()
        assert torch.cuda.is_initialized()
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
        with pytest.raises(ValueError, match="one soft device"):
            torch.cuda.set_device(1)

    def test_streams_and_events(self) -> None:
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

    def test_running_out_is_the_error_that_programs_catch(self) -> None:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")

    def test_profiling_calls_do_nothing(self) -> None:
        torch.cuda.nvtx.range_push("a")
        torch.cuda.nvtx.mark("b")
        torch.cuda.nvtx.range_pop()
        with torch.cuda.nvtx.range("c"), torch.cuda.profiler.profile():
            torch.cuda.cudart().cudaMemGetInfo(0)
        torch.cuda.synchronize()

    def test_capture_measures_a_step_as_on_soft(self) -> None:
        model = nn.Linear(8, 8).cuda()
        x = torch.ones(4, 8, device="cuda")

        def step() -> None:
            model(x).sum().backward()

        as_cuda = measured(step, device="cuda", timed=1)
        cuda_as_soft.uninstall()
        as_soft = measured(step, device="soft", timed=1)
        assert list(as_cuda.ops.name) == list(as_soft.ops.name)
        assert sorted(as_cuda.tensors.bytes) == sorted(as_soft.tensors.bytes)


@pytest.mark.usefixtures("cuda")
class TestWhatCannotBe:
    @pytest.mark.parametrize("name", ["CUDAGraph", "graph", "make_graphed_callables", "MemPool", "utilization"])
    def test_it_is_refused_in_one_line(self, name: str) -> None:
        with pytest.raises(RuntimeError, match=rf"^torch\.cuda\.{name}: the software GPU .* has no [^\n]*$"):
            getattr(torch.cuda, name)(None)

    def test_compile_says_so_once_and_passes_the_model_through(self, capfd: pytest.CaptureFixture[str]) -> None:
        model = nn.Linear(2, 2).cuda()
        assert torch.compile(model) is model
        assert torch.compile(mode="max-autotune")(model) is model
        model.compile()
        assert model(torch.ones(1, 2, device="cuda")).is_cuda
        said = [line for line in capfd.readouterr().err.splitlines() if "compile" in line]
        assert said == ["neaptide: torch.compile makes no code for the software GPU; running without it"]

    def test_classes_stay_classes(self) -> None:
        kinds = [getattr(torch.cuda, name) for name in ("CUDAGraph", "Stream", "Event", "FloatTensor", "device")]
        assert all(isinstance(kind, type) and kind | None for kind in kinds)  # as in annotations

    def test_the_profiler_says_once_that_it_sees_the_cpu_alone(self, capfd: pytest.CaptureFixture[str]) -> None:
        for _ in range(2):
            with torch.autograd.profiler.profile(use_device="cuda") as profile:
                torch.ones(2, device="cuda").add(1)
            assert profile.key_averages()
        assert capfd.readouterr().err.count("profiler cannot look into the software GPU") == 1

    @pytest.mark.filterwarnings("ignore:Attempted to get default timeout")
    def test_nccl_is_refused(self) -> None:
        with pytest.raises(RuntimeError, match="NCCL"):
            torch.distributed.init_process_group("nccl", rank=0, world_size=1, store=torch.distributed.HashStore())


def test_soft_itself_is_imported() -> None:
    assert neaptide.devices.soft.face is torch.soft
