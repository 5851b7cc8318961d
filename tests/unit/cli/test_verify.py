"""`neaptide verify` and `neaptide doctor` on machines that lack something: one clear line each."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from neaptide.cli import main
from neaptide.devices.checkup import gpu
from neaptide.devices.cuda import nvml
from neaptide.verification import verify
from neaptide.verification.report import Line, Report, Verdict

GPU = nvml.Gpu("NVIDIA A100-SXM4-40GB", "GPU-aa", 1 << 63, 40 << 30, 39 << 30)


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU, on which everything is there."""
    monkeypatch.setenv("NEAPTIDE_DEVICE", "cuda")
    monkeypatch.setattr(nvml, "driver_version", lambda: "580.65.06")
    monkeypatch.setattr(nvml, "visible_gpus", lambda: [GPU])
    monkeypatch.setattr(nvml, "processes", lambda _: [])
    monkeypatch.setattr(gpu.driver, "cuda_version", lambda: (13, 0))
    monkeypatch.setattr(gpu.driver, "maps_pages", lambda _: True)
    monkeypatch.setattr(gpu, "torch_build", lambda: ("2.13.0+cu130", "13.0"))
    monkeypatch.setattr(gpu, "find_headers", lambda _: Path("/headers"))


def said_by_both(capsys: pytest.CaptureFixture[str], line: str) -> None:
    """Both commands say it in one line; verify with exit code 2, doctor with 1 and its other findings."""
    assert main(["verify"]) == 2
    assert capsys.readouterr() == ("", f"neaptide: {line}\n")
    assert main(["doctor"]) == 1
    subject, _, rest = line.partition(": ")
    (found,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith(f"failure  {subject} ")]
    assert found.endswith(f"  {rest}")


def test_no_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    remedy = "install g++ (apt install g++), or set CXX"
    said_by_both(capsys, f"compiler: /nowhere/g++ was not found; devices are built on first use; {remedy}")


@pytest.mark.usefixtures("with_gpu")
def test_a_torch_without_cuda_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gpu, "torch_build", lambda: ("2.13.0+cpu", None))
    line = "CUDA build: torch 2.13.0+cpu is built for the CPU; programs do not find the GPU"
    said_by_both(capsys, f"{line}; install torch's CUDA build: https://pytorch.org")


@pytest.mark.usefixtures("with_gpu")
def test_a_driver_that_is_too_old_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu.driver, "cuda_version", lambda: (11, 4))
    said_by_both(capsys, "driver: 580.65.06, for CUDA 11.4; install a driver for CUDA 12 or newer")


@pytest.mark.usefixtures("with_gpu")
def test_missing_headers_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gpu, "find_headers", lambda _: None)
    remedy = "pip install nvidia-cuda-runtime, or set CUDA_HOME"
    said_by_both(capsys, f"CUDA headers: cuda_runtime_api.h of CUDA 13.0 was not found; {remedy}")


def test_no_gpu_is_one_line_if_one_was_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_driver() -> list[nvml.Gpu]:
        raise nvml.NvmlError("no NVIDIA GPU was found")

    monkeypatch.setenv("NEAPTIDE_DEVICE", "cuda")
    monkeypatch.setattr(nvml, "visible_gpus", no_driver)
    assert main(["verify"]) == 2
    assert capsys.readouterr().err == "neaptide: no NVIDIA GPU was found\n"


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.OK, 0), (Verdict.UNKNOWN, 0), (Verdict.FAILED, 1)])
def test_the_page_the_file_and_the_exit_code_say_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, verdict: Verdict, code: int
) -> None:
    report = Report(
        neaptide="1",
        torch="2",
        device="a device",
        kind="soft:0",
        jobs=("one", "two"),
        budget_bytes=1 << 20,
        quick=True,
        began_at="today",
        seconds=61.0,
        lines=(Line("a promise", verdict, "as measured", {"times": 1.5}),),
    )
    monkeypatch.setattr(verify, "verify", lambda quick, say: report if quick and say else None)
    assert main(["verify", "--quick", "-o", str(tmp_path / "report.json")]) == code
    assert f"{verdict:<19}  a promise  as measured" in capsys.readouterr().out.splitlines()
    assert msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=Report) == report


def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-o", "/nowhere/report.json"]) == 2
    assert "there is no directory /nowhere" in capsys.readouterr().err
