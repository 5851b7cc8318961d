"""On a machine with a GPU that no device kind can share, neaptide refuses, and leaves torch as it is.

There is no GPU here: files of its driver, torch's version file and `torch.cuda.is_available` are stand-ins.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from neaptide.cli import main
from neaptide.devices import GpuPresentError, chosen_device, default_kind
from neaptide.devices.board import Board
from neaptide.devices.gpu_presence import torch_finds_gpu
from neaptide.devices.interface import DeviceName

REFUSAL = (
    "there is a GPU here, and neaptide has been tried on no GPU yet; "
    "to share it, set NEAPTIDE_DEVICE=cuda; to share the software GPU instead of it, set NEAPTIDE_DEVICE=soft"
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a CUDA build of torch; the folder is its /dev."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("from typing import Optional\ncuda: Optional[str] = '13.0'\n")
    found = ModuleSpec("torch", None, origin=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr("neaptide.devices.gpu_presence.find_spec", lambda _: found)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "dev").mkdir()
    return tmp_path / "dev"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("neaptide.devices.torch_finds_gpu", lambda: True)
    monkeypatch.delenv("NEAPTIDE_DEVICE", raising=False)
    monkeypatch.setenv("NEAPTIDE_RUNTIME", str(tmp_path / "r"))
    monkeypatch.chdir(tmp_path)
    Path("jobs.toml").write_text("[[job]]\ncommand = 'true'\n")


@pytest.mark.parametrize("name", ["nvidia0", "nvidia12", "dxg", "nvhost-gpu"])
def test_a_cuda_build_of_torch_and_a_file_of_the_driver_are_a_gpu(machine: Path, name: str) -> None:
    assert not torch_finds_gpu(machine)
    (machine / name).touch()
    assert torch_finds_gpu(machine)


@pytest.mark.parametrize("name", ["nvidiactl", "nvidia-uvm"])
def test_a_driver_without_a_gpu_is_none(machine: Path, name: str) -> None:
    (machine / name).touch()
    assert not torch_finds_gpu(machine)


@pytest.mark.parametrize(("visible", "seen"), [("", False), ("-1", False), (" ", False), ("0", True), ("GPU-8f", True)])
def test_a_gpu_that_cuda_visible_devices_hides_is_none(
    machine: Path, monkeypatch: pytest.MonkeyPatch, visible: str, seen: bool
) -> None:
    (machine / "nvidia0").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert torch_finds_gpu(machine) is seen


@pytest.mark.parametrize(
    "version", ["cuda: Optional[str] = None\n", "cuda = None\n", "__version__ = '2.13.0'\n", "cuda = ("]
)
def test_a_torch_that_is_not_built_for_cuda_finds_no_gpu(machine: Path, version: str) -> None:
    (machine / "nvidia0").touch()
    (machine.parent / "torch" / "version.py").write_text(version)
    assert not torch_finds_gpu(machine)


def test_the_installed_torch_says_how_it_was_built(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.undo()
    (machine / "nvidia0").touch()
    assert torch_finds_gpu(machine) is (torch.version.cuda is not None)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("words", [["run", "jobs.toml"], ["run", "--", "true"], ["up"]])
def test_run_and_up_refuse_on_a_machine_with_a_gpu_in_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(words) == 2
    assert capsys.readouterr() == ("", f"neaptide: {REFUSAL}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.toml"]


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("words", [["run", "jobs.toml"], ["up"]])
def test_the_refusal_is_the_same_where_pydantic_is_loaded(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pydantic")  # cyclopts then checks all arguments by it
    assert main(words) == 2
    assert capsys.readouterr().err == f"neaptide: {REFUSAL}\n"


@pytest.mark.usefixtures("gpu")
def test_help_is_shown_on_a_machine_with_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    assert "--budget" in capsys.readouterr().out


@pytest.mark.usefixtures("gpu")
def test_the_software_gpu_is_used_beside_a_gpu_only_if_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GpuPresentError, match=REFUSAL):
        chosen_device()
    monkeypatch.setenv("NEAPTIDE_DEVICE", "soft")
    assert chosen_device() == DeviceName("soft")


@pytest.mark.usefixtures("gpu")
def test_a_gpu_is_hidden_from_jobs_of_the_software_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEAPTIDE_DEVICE", "soft")
    kind = default_kind()
    assert "CUDA_VISIBLE_DEVICES" not in kind.environment(kind.settings_type(), tmp_path / "board")
    monkeypatch.setattr(sys.modules[type(kind).__module__], "torch_finds_gpu", lambda: True)
    assert kind.environment(kind.settings_type(), tmp_path / "board")["CUDA_VISIBLE_DEVICES"] == ""


ATTACHES = """
import torch
torch.cuda.is_available = lambda: True
import neaptide, neaptide.devices
before = torch.accelerator.current_accelerator()
for start in (neaptide.attach, lambda: __import__("neaptide.devices.soft")):
    try:
        start()
    except ValueError as error:
        print(error)
assert torch.accelerator.current_accelerator() == before
print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "soft"))
"""


@pytest.mark.parametrize(
    ("device", "line"),
    [
        ("", REFUSAL),
        ("soft", "torch finds a GPU here; to use the software GPU instead of it, set CUDA_VISIBLE_DEVICES="),
    ],
)
def test_no_program_gets_the_software_gpu_beside_a_gpu(tmp_path: Path, device: str, line: str) -> None:
    Board.create(tmp_path / "board", 1 << 30).close()
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "", "NEAPTIDE_SOCKET": str(tmp_path / "daemon.sock")}
    done = subprocess.run(
        [sys.executable, "-c", ATTACHES], env={**environment, "NEAPTIDE_DEVICE": device}, capture_output=True, text=True
    )
    assert done.stderr == ""
    attached, imported, torch_is = done.stdout.splitlines()
    assert attached.startswith(line)
    assert imported.startswith(line)
    assert torch_is == "privateuseone False"
