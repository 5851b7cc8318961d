"""Building just in time, and the errors when that is not possible."""

from __future__ import annotations

import os
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


@pytest.mark.parametrize(("name", "value"), [("CAPACITY", "much"), ("SMS", "many"), ("SMS", "-1"), ("WAIT", "long")])
def test_a_setting_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"NEAPTIDE_SOFT_{name}", value)
    with pytest.raises(ValueError, match=f"NEAPTIDE_SOFT_{name}"):
        settings.read()
