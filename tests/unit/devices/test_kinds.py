"""Devices by their names, and a device in a folder outside the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from neaptide.devices import chosen_device, default_kind, find_kind, parse_device_name
from neaptide.devices.interface import DeviceName
from neaptide.live.protocol.paths import runtime_paths

MINE = """
from dataclasses import dataclass
from neaptide.devices.interface import DeviceSettings, setting
from .agent import NAME

@dataclass(frozen=True, kw_only=True)
class Settings(DeviceSettings):
    speed: int | None = setting("How fast it is.")

class Kind:
    name = NAME
    supplies = frozenset()
    settings_type = board_settings_type = Settings

KIND = Kind()
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "agent.py").write_text("NAME = 'mine'\n")
    (tmp_path / "mine" / "kind.py").write_text(MINE)
    return tmp_path / "mine" / "kind.py"


def test_a_device_is_named_by_its_kind_and_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEAPTIDE_DEVICE", raising=False)
    assert chosen_device() == DeviceName("soft", 0)
    monkeypatch.setenv("NEAPTIDE_DEVICE", "soft:3")
    assert chosen_device() == DeviceName("soft", 3)
    assert default_kind().name == "soft"
    assert parse_device_name("/a/kind.py:1") == DeviceName("/a/kind.py", 1)
    assert parse_device_name("here/kind.py") == DeviceName(str(Path("here/kind.py").absolute()))


@pytest.mark.parametrize("text", ["soft:-1", "soft:x", "soft:0:1", "sofd", "../soft", ":"])
def test_what_names_no_device_is_refused_by_every_command(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEAPTIDE_RUNTIME", raising=False)
    monkeypatch.setenv("NEAPTIDE_DEVICE", text)
    with pytest.raises(ValueError, match="no device is called '"):
        runtime_paths()


def test_a_device_can_be_a_folder_outside_the_package(mine: Path) -> None:
    kind = find_kind(str(mine))
    assert (kind.name, kind.supplies) == ("mine", frozenset())
    assert find_kind(str(mine)) is kind


def test_two_device_folders_of_the_same_name_are_two_devices(mine: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere" / "mine"
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text("NAME = 'other'\n")
    (folder / "kind.py").write_text(MINE)
    assert find_kind(str(mine)).name == "mine"
    assert find_kind(str(folder / "kind.py")).name == "other"


def test_the_flags_of_a_command_are_the_settings_of_the_chosen_device(mine: Path) -> None:
    command = [sys.executable, "-m", "neaptide.cli", "up", "--help"]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "", "NEAPTIDE_DEVICE": str(mine), "COLUMNS": "100"}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "--speed INT" in shown
    assert "How fast it is." in shown
    assert "--sms" not in shown


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("sfot", "no device is called 'sfot'; did you mean soft?"),
        ("/nowhere/kind.py", "there is no device file /nowhere/kind.py"),
    ],
)
def test_a_device_that_is_not_there_is_one_clear_line(name: str, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        find_kind(name)


def test_a_device_file_without_a_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kind.py").write_text("")
    with pytest.raises(ValueError, match="a device file sets KIND to its DeviceKind, and this one does not"):
        find_kind(str(tmp_path / "kind.py"))


def test_a_kind_loads_no_torch_and_starts_no_device() -> None:
    program = """
import sys
from neaptide.devices import default_kind
import neaptide.live.daemon.server, neaptide.live.job.client, neaptide.live.job.connection
default_kind().default_budget_bytes()
print([name for name in sys.modules if name in ("torch", "neaptide.devices.soft")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_settings_that_are_given_come_before_others() -> None:
    settings_type = default_kind().settings_type
    flags, file = settings_type(wait="1s"), settings_type(sms=1, wait="2s", cuda_as_soft=False)
    assert flags.or_else(file) == settings_type(sms=1, wait="1s", cuda_as_soft=False)


def test_the_link_of_the_software_gpu_is_a_bandwidth() -> None:
    settings_type = default_kind().settings_type
    assert settings_type(link="4GB/s").environment()["NEAPTIDE_SOFT_LINK"] == "4GB/s"
    assert "NEAPTIDE_SOFT_LINK" not in settings_type().environment()
    with pytest.raises(ValueError, match=r"^link: "):
        settings_type(link="fast")
