"""Building just in time, and the errors when that is not possible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from neaptide.devices.soft import settings
from neaptide.devices.soft.extension import EXTENSION
from neaptide.native_library import BuildError


def test_the_digest_follows_the_sources_and_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    before = EXTENSION.target()
    assert EXTENSION.target() == before
    monkeypatch.setattr(torch, "__version__", "2.13.9")
    assert EXTENSION.target() != before


def test_a_missing_compiler_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEAPTIDE_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match=r"needs a C\+\+ compiler .*'no-such-compiler' was not found"):
        EXTENSION.load()


def test_another_version_of_torch_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.12.1+cpu")
    with pytest.raises(BuildError, match=r"needs torch 2\.13, this is torch 2\.12\.1"):
        EXTENSION.load()


def test_a_cache_folder_that_cannot_be_written_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NEAPTIDE_CACHE", str(tmp_path / "file"))  # a folder cannot be made below a file
    with pytest.raises(BuildError, match=r"is not writable .*; set NEAPTIDE_CACHE"):
        EXTENSION.load()


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEAPTIDE_SOFT_BOARD", str(tmp_path / "deep" / "board"))
    monkeypatch.setenv("NEAPTIDE_SOFT_CAPACITY", "2GiB")
    monkeypatch.setenv("NEAPTIDE_SOFT_SMS", "1")
    monkeypatch.setenv("NEAPTIDE_JOB", "job")
    chosen = settings.read()
    assert chosen.capacity == 2 << 30
    assert chosen.width == 1
    assert chosen.sms == len(os.sched_getaffinity(0))
    assert chosen.job == "job"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CAPACITY", "much"),
        *(("SMS", value) for value in ("many", "-1", "inf", "1025")),
        *(("WAIT", value) for value in ("long", "nan")),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"NEAPTIDE_SOFT_{name}", value)
    with pytest.raises(ValueError, match=f"NEAPTIDE_SOFT_{name}"):
        settings.read()


@pytest.mark.parametrize(
    ("cuda", "any_device", "fraction"),
    [
        (None, None, 1.0),
        ("expandable_segments:True,per_process_memory_fraction:0.25", None, 0.25),
        (None, "per_process_memory_fraction:0.5, max_split_size_mb:64", 0.5),
        ("max_split_size_mb:64", "per_process_memory_fraction:0.5", 1.0),  # as torch does: the first alone is read
    ],
)
def test_the_limit_of_memory_is_read_where_torch_reads_it_on_cuda(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, any_device: str | None, fraction: float
) -> None:
    for name, value in (("PYTORCH_CUDA_ALLOC_CONF", cuda), ("PYTORCH_ALLOC_CONF", any_device)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert settings.read().memory_fraction == fraction


@pytest.mark.parametrize("value", ["much", "2", "-1", "nan", ""])
def test_a_limit_of_memory_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", f"per_process_memory_fraction:{value}")
    with pytest.raises(ValueError, match=f"PYTORCH_CUDA_ALLOC_CONF: .* between 0 and 1, not '{value}'"):
        settings.read()


def test_a_process_leases_no_more_than_the_settings_of_the_allocator_allow(tmp_path: Path) -> None:
    program = """
import torch, neaptide.devices.soft
try:
    torch.empty(32 << 20, dtype=torch.uint8, device="soft")
except torch.OutOfMemoryError as error:
    print(torch.soft.get_per_process_memory_fraction(), "set_per_process_memory_fraction" in str(error))
"""
    limits = {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.25", "NEAPTIDE_SOFT_CAPACITY": "64MiB"}
    environment = {**os.environ, **limits, "NEAPTIDE_SOFT_BOARD": str(tmp_path / "board")}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0.25", "True"], ran.stderr
