"""What `neaptide doctor` finds, on machines that are described here."""

from __future__ import annotations

from pathlib import Path

import pytest

from neaptide.devices.checkup import Finding, Grade, gpu, machine
from neaptide.devices.cuda import nvml

GPU = nvml.Gpu("NVIDIA A100-SXM4-40GB", "GPU-aa", 1 << 63, 40 << 30, 39 << 30)


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one GPU, on which everything is there."""
    monkeypatch.setattr(nvml, "driver_version", lambda: "580.65.06")
    monkeypatch.setattr(nvml, "visible_gpus", lambda: [GPU])
    monkeypatch.setattr(nvml, "processes", lambda _: [])
    monkeypatch.setattr(gpu.driver, "cuda_version", lambda: (13, 0))
    monkeypatch.setattr(gpu.driver, "maps_pages", lambda _: True)
    monkeypatch.setattr(gpu, "torch_build", lambda: ("2.13.0+cu130", "13.0"))
    monkeypatch.setattr(gpu, "find_headers", lambda _: Path("/headers"))
    monkeypatch.setattr(gpu.mps, "find_control", lambda: "/usr/bin/nvidia-cuda-mps-control")


def found(findings: list[Finding], subject: str) -> Finding:
    return next(each for each in findings if each.subject == subject)


def test_a_machine_without_a_gpu_is_told_what_it_gets_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> str:
        raise nvml.NvmlError("no NVIDIA GPU was found")

    monkeypatch.setattr(nvml, "driver_version", no_driver)
    (only,) = gpu.gpu_findings()
    assert only.grade is Grade.WARNING
    assert "software GPU" in only.remedy


@pytest.mark.usefixtures("with_gpu")
def test_a_machine_with_everything_has_nothing_to_do() -> None:
    findings = gpu.gpu_findings()
    assert {each.grade for each in findings} == {Grade.OK}
    assert not any(each.remedy for each in findings)
    assert "39.0 GiB are free" in found(findings, "GPU 0").text


@pytest.mark.usefixtures("with_gpu")
def test_each_thing_that_is_missing_is_a_line_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.driver, "cuda_version", lambda: (11, 4))
    monkeypatch.setattr(gpu.driver, "maps_pages", lambda _: False)
    monkeypatch.setattr(gpu, "find_headers", lambda _: None)
    failures = [each for each in gpu.gpu_findings() if each.grade is Grade.FAILURE]
    assert [each.subject for each in failures] == ["driver", "CUDA headers", "GPU 0 pages"]
    assert all(each.remedy for each in failures)
    monkeypatch.setattr(gpu, "torch_build", lambda: ("2.13.0+cpu", None))
    assert found(gpu.gpu_findings(), "CUDA build").grade is Grade.FAILURE


@pytest.mark.usefixtures("with_gpu")
def test_processes_outside_neaptide_and_a_missing_mps_are_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "processes", lambda _: [nvml.GpuProcess(2**22 + 1, 3 << 30), nvml.GpuProcess(7, None)])
    monkeypatch.setattr(gpu.mps, "find_control", lambda: None)
    findings = gpu.gpu_findings()
    assert found(findings, "MPS").grade is Grade.WARNING
    others = found(findings, "GPU 0 processes")
    assert others.grade is Grade.WARNING
    assert f"{2**22 + 1} (another user's, or in another container): 3.00 GiB" in others.text
    assert "unknown memory" in others.text


def test_a_missing_compiler_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    finding = found(machine.machine_findings(), "compiler")
    assert (finding.grade, finding.remedy) == (Grade.FAILURE, "install g++ (apt install g++), or set CXX")


def test_a_torch_of_another_release_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "torch_build", lambda: ("2.9.1+cu128", "12.8"))
    finding = found(machine.machine_findings(), "torch")
    assert (finding.grade, finding.text) == (Grade.FAILURE, "2.9.1+cu128, built for CUDA 12.8")


def test_a_containers_memory_limit_is_shown(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{6 << 30}\n")
    finding = found(machine.machine_findings((str(tmp_path / "memory.max"),)), "host memory")
    assert finding.grade is Grade.WARNING
    assert "6.00 GiB" in finding.text


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["a", "b", "c"]),
        ("", []),
        ("2,0", ["c", "a"]),
        ("GPU-bb", ["b"]),
        ("GPU-cc,1", ["c", "b"]),
        ("0,7,1", ["a"]),  # as CUDA does it: what follows a wrong entry is left out
        ("-1", []),
    ],
)
def test_gpus_are_those_of_cuda_visible_devices_in_its_order(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, names: list[str]
) -> None:
    gpus = [nvml.Gpu(name, f"GPU-{name * 2}", index, 1, 1) for index, name in enumerate("abc")]
    monkeypatch.setattr(nvml, "all_gpus", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [each.name for each in nvml.visible_gpus()] == names
