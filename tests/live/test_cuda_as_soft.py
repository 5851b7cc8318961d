"""Where there is no GPU, cuda is a name of the software GPU."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator

import pytest

from cuda_name import cuda_is_soft  # isort: skip - before the device is made

import torch
from torch import nn

import neaptide.devices.soft
from neaptide.devices.soft import as_cuda as cuda_as_soft
from neaptide.devices.soft.as_cuda import names

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def cuda() -> Iterator[None]:
    with cuda_is_soft():
        yield


def test_installing_twice_is_installing_once() -> None:
    try:
        assert cuda_as_soft.install()
        assert cuda_as_soft.install()
    finally:
        cuda_as_soft.uninstall()
    assert not cuda_as_soft.installed()


def test_installing_changes_nothing_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not cuda_as_soft.install()
    assert not cuda_as_soft.installed()
    assert str(torch.device("soft")) == "soft"
    assert capfd.readouterr().err == ""


def test_uninstalling_restores_every_attribute() -> None:
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


def test_an_installation_that_fails_halfway_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("neaptide.devices.soft.as_cuda.answers.patch", fail)
    with pytest.raises(RuntimeError, match="no"):
        cuda_as_soft.install()
    assert not cuda_as_soft.installed()
    assert str(torch.device("soft")) == "soft"
    assert not hasattr(torch._C, "_scatter")


def test_an_unexpected_torch_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_device_contexts_and_default_devices_mean_soft(self) -> None:
        with torch.device("cuda"):
            assert torch.zeros(1).is_cuda
        torch.set_default_device("cuda")
        assert torch.zeros(1).is_cuda
        assert nn.Linear(1, 1).weight.is_cuda
        torch.set_default_device(None)
        assert not torch.zeros(1).is_cuda

    def test_the_old_default_tensor_type_means_soft(self) -> None:
        torch.set_default_tensor_type("torch.cuda.HalfTensor")
        assert torch.zeros(1).type() == "torch.cuda.HalfTensor"

    def test_old_tensor_types_convert_and_support_isinstance(self) -> None:
        assert torch.ones(2).type(torch.cuda.LongTensor).type() == "torch.cuda.LongTensor"
        assert torch.ones(2).type("torch.cuda.HalfTensor").dtype == torch.float16
        assert torch.ones(2, device="cuda").type(torch.float64).type() == "torch.cuda.DoubleTensor"
        assert not torch.ones(2, device="cuda").type("torch.FloatTensor").is_cuda
        assert isinstance(torch.cuda.FloatTensor([1.0]), torch.cuda.FloatTensor)
        assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)

    def test_saved_files_name_cuda_and_load_onto_any_device(self) -> None:
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

    def test_files_saved_on_soft_can_be_loaded(self) -> None:
        cuda_as_soft.uninstall()
        file = io.BytesIO()
        torch.save(torch.ones(2, device="soft"), file)
        cuda_as_soft.install()
        file.seek(0)
        assert torch.load(file).is_cuda


def test_the_package_is_the_module_torch_soft() -> None:
    assert neaptide.devices.soft.torch_module is torch.soft


def test_the_module_of_the_device_follows_its_name() -> None:
    soft = torch.device("soft")
    assert cuda_as_soft.install()
    try:
        assert torch.get_device_module(soft) is torch.cuda
    finally:
        cuda_as_soft.uninstall()
    assert torch.get_device_module(soft) is torch.soft
