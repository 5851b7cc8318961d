"""The environment in which a job finds its daemon."""

from __future__ import annotations

import os
from pathlib import Path

from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import DeviceSettings, JobCommand, environment_of

PATHS = RuntimePaths(Path("/run/neaptide"))
PLAIN = JobCommand(name="first", command=("python", "train.py"))


def test_a_job_finds_the_daemon_its_board_and_its_name() -> None:
    found = environment_of(PLAIN, DeviceSettings(), PATHS, {"HOME": "/home/me"})
    assert found["HOME"] == "/home/me"
    assert found["NEAPTIDE_SOCKET"] == "/run/neaptide/daemon.sock"
    assert found["NEAPTIDE_SOFT_BOARD"] == "/run/neaptide/board"
    assert (found["NEAPTIDE_JOB"], found["NEAPTIDE_KIND"], found["NEAPTIDE_CUDA_AS_SOFT"]) == ("first", "training", "1")
    assert not {"NEAPTIDE_ITERATIONS", "NEAPTIDE_DEADLINE", "NEAPTIDE_SOFT_SMS", "NEAPTIDE_SOFT_WAIT"} & found.keys()


def test_what_attaches_comes_first_on_the_path_and_the_users_own_is_kept() -> None:
    first, *rest = environment_of(PLAIN, DeviceSettings(), PATHS, {"PYTHONPATH": "/mine"})["PYTHONPATH"].split(
        os.pathsep
    )
    assert (Path(first) / "sitecustomize.py").is_file()
    assert rest[0] == "/mine"
    assert (Path(rest[1]) / "neaptide").is_dir()


def test_a_job_s_own_variables_win_over_what_is_inherited() -> None:
    job = JobCommand(name="a", command=("x",), environment={"SEED": "1", "PYTHONPATH": "/job"})
    found = environment_of(job, DeviceSettings(), PATHS, {"SEED": "0", "PYTHONPATH": "/mine"})
    assert found["SEED"] == "1"
    assert "/job" in found["PYTHONPATH"].split(os.pathsep)


def test_what_is_said_of_a_job_and_of_the_device_is_passed_on() -> None:
    job = JobCommand(name="a", command=("x",), kind="inference", priority=3, deadline_seconds=0.05, iterations=10**7)
    found = environment_of(job, DeviceSettings(sms=1, wait_seconds=0.0, cuda_as_soft=False), PATHS, {})
    assert (found["NEAPTIDE_KIND"], found["NEAPTIDE_PRIORITY"], found["NEAPTIDE_DEADLINE"]) == (
        "inference",
        "3",
        "0.05",
    )
    assert found["NEAPTIDE_ITERATIONS"] == "10000000"
    assert (found["NEAPTIDE_SOFT_SMS"], found["NEAPTIDE_SOFT_WAIT"]) == ("1", "0.0")
    assert found["NEAPTIDE_CUDA_AS_SOFT"] == "0"
