"""When a program that does not use the device is told that it is not shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from neaptide.devices import DeviceName
from neaptide.live.job.membership import Membership
from neaptide.live.protocol.job_settings import JobSettings


@pytest.fixture
def membership(tmp_path: Path) -> Membership:
    return Membership(JobSettings(name="a"), tmp_path / "socket", tmp_path / "board", DeviceName("soft"))


def test_a_program_that_calls_a_module_on_the_cpu_again_and_again_is_told_once(
    membership: Membership, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for _ in range(5):
        membership._works_elsewhere("cpu", steps=False)
        said.append(capsys.readouterr().err.count("is not shared: its torch works on the CPU"))
    assert said == [0, 0, 1, 0, 0]


def test_a_program_that_trains_on_the_cpu_is_told_at_the_first_step(
    membership: Membership, capsys: pytest.CaptureFixture[str]
) -> None:
    membership._works_elsewhere("cpu", steps=True)
    assert "is not shared: its torch works on the CPU" in capsys.readouterr().err


def test_modules_without_data_are_no_work_on_the_cpu(
    membership: Membership, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        membership._works_elsewhere("meta", steps=True)
    assert capsys.readouterr().err == ""
