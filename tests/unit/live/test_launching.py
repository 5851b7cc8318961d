"""The environment in which a job finds its daemon."""

from __future__ import annotations

import os
from pathlib import Path

from neaptide.devices import default_kind
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import JobCommand, environment_of

PATHS = RuntimePaths(Path("/run/neaptide"))
Settings = default_kind().settings_type
PLAIN = JobCommand(name="first", command=("python", "train.py"))


def test_a_job_finds_the_daemon_its_board_and_its_name() -> None:
    found = environment_of(PLAIN, Settings(), PATHS, {"HOME": "/home/me"})
    assert found["HOME"] == "/home/me"
    assert found["NEAPTIDE_SOCKET"] == "/run/neaptide/daemon.sock"
    assert found["NEAPTIDE_DEVICE"] == "soft:0"
    assert found["NEAPTIDE_SOFT_BOARD"] == "/run/neaptide/board"
    assert (found["NEAPTIDE_JOB"], found["NEAPTIDE_KIND"], found["NEAPTIDE_CUDA_AS_SOFT"]) == ("first", "training", "1")
    assert not {"NEAPTIDE_ITERATIONS", "NEAPTIDE_DEADLINE", "NEAPTIDE_SOFT_SMS", "NEAPTIDE_SOFT_WAIT"} & found.keys()


def test_the_bootstrap_folder_comes_first_on_the_path_and_the_users_own_path_is_kept() -> None:
    first, *rest = environment_of(PLAIN, Settings(), PATHS, {"PYTHONPATH": "/mine"})["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").is_file()
    assert rest[0] == "/mine"
    assert (Path(rest[1]) / "neaptide").is_dir()


def test_a_job_s_own_variables_win_over_inherited_ones() -> None:
    job = JobCommand(name="a", command=("x",), environment={"SEED": "1", "PYTHONPATH": "/job"})
    found = environment_of(job, Settings(), PATHS, {"SEED": "0", "PYTHONPATH": "/mine"})
    assert found["SEED"] == "1"
    assert "/job" in found["PYTHONPATH"].split(os.pathsep)


def test_the_settings_of_a_job_and_of_the_device_are_passed_on() -> None:
    job = JobCommand(name="a", command=("x",), kind="inference", priority=3, deadline_seconds=0.05, iterations=10**7)
    found = environment_of(job, Settings(sms=1, wait=0.0, cuda_as_soft=False), PATHS, {})
    assert (found["NEAPTIDE_KIND"], found["NEAPTIDE_PRIORITY"], found["NEAPTIDE_DEADLINE"]) == (
        "inference",
        "3",
        "0.05",
    )
    assert found["NEAPTIDE_ITERATIONS"] == "10000000"
    assert (found["NEAPTIDE_SOFT_SMS"], found["NEAPTIDE_SOFT_WAIT"]) == ("1", "0.0")
    assert found["NEAPTIDE_CUDA_AS_SOFT"] == "0"
