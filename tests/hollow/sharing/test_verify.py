"""`neaptide verify` and `neaptide doctor` on the hollow device, whose kernels compute nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hollow.sharing.running import Hollow
from neaptide.verification.report import Report, Verdict


@pytest.fixture
def hollow(tmp_path: Path) -> Hollow:
    return Hollow(tmp_path)


def neaptide(hollow: Hollow, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "neaptide", *words]
    return subprocess.run(call, env=hollow.environment | environment, capture_output=True, text=True, timeout=900)


def test_a_verification_finds_every_promise_kept_that_can_be_judged_here(hollow: Hollow) -> None:
    file = hollow.folder / "report.json"
    settings = {"HOLLOW_COSTS": "0", "HOLLOW_LIBRARY": "0"}  # no time for driver calls; the other as in cuda_daemon.py
    done = neaptide(hollow, "verify", "--quick", "-o", str(file), **settings)
    assert done.returncode in (0, 1), done.stderr  # 1: a figure of speed is not what it should be, on busy cores
    report = msgspec.json.decode(file.read_bytes(), type=Report)
    verdicts = {line.subject: line.verdict for line in report.lines}
    assert verdicts["numbers alone and shared"] is Verdict.UNKNOWN
    kept = ("data", "budget, by neaptide's board", "budget, by the device's own count", "no job killed")
    assert {subject: verdicts[subject] for subject in kept} == dict.fromkeys(kept, Verdict.OK), report.lines
    assert verdicts["out-of-memory error"] is Verdict.OK, report.lines


def test_doctor_finds_nothing_that_keeps_jobs_from_sharing(hollow: Hollow) -> None:
    done = neaptide(hollow, "doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["subject"]: each for each in json.loads(done.stdout)}
    good = ("torch", "compiler", "driver", "CUDA headers", "GPU 0", "GPU 0 pages", "GPU 0 processes")
    assert {subject: found[subject]["grade"] for subject in good} == dict.fromkeys(good, "ok"), found
    assert found["MPS"]["grade"] == "warning"


def test_a_job_without_cudas_headers_gets_one_line() -> None:
    without = "import neaptide.devices.cuda.headers as headers; headers.find_headers = lambda _: None; "
    call = [sys.executable, "-c", without + "import neaptide.devices.cuda.extension"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=900)
    *_, last = done.stderr.splitlines()
    assert last.startswith("neaptide.native_library.BuildError: the CUDA device needs cuda_runtime_api.h of CUDA 13 ")
    assert last.endswith("it was not found; pip install nvidia-cuda-runtime, or set CUDA_HOME")


def test_a_driver_that_is_too_old_is_one_line_of_both_commands(hollow: Hollow) -> None:
    verified = neaptide(hollow, "verify", HOLLOW_DRIVER="11040")
    assert verified.returncode == 2
    assert verified.stdout == ""
    (line,) = verified.stderr.splitlines()
    assert line.startswith("neaptide: driver: ")
    assert line.endswith(", for CUDA 11.4; install a driver for CUDA 12 or newer")
    looked = neaptide(hollow, "doctor", HOLLOW_DRIVER="11040")
    assert looked.returncode == 1
    (failure,) = [line for line in looked.stdout.splitlines() if line.startswith("failure")]
    assert "for CUDA 11.4; install a driver for CUDA 12 or newer" in failure
