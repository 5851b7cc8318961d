"""The device of docs/writing-a-device.md, from a folder outside the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-device.md"
SECONDS = 600.0  # the device may have to be built first
TRAINING = """
import os, torch
network = torch.nn.Linear(64, 64).to("soft")
update = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(20):
    network(torch.ones(8, 64).to("soft")).sum().backward()
    update.step()
    update.zero_grad()
print(os.environ["NEAPTIDE_DEVICE"], torch.soft.get_device_properties().total_memory >> 20)
"""


@pytest.fixture
def device(tmp_path: Path) -> Path:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    path = tmp_path / "plain" / "kind.py"
    path.parent.mkdir()
    path.write_text(program)
    return path


def neaptide(device: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NEAPTIDE_DEVICE": f"{device}:2", "NEAPTIDE_RUNTIME": str(device.parents[1] / "r")}
    command = [sys.executable, "-m", "neaptide.cli", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)


def test_jobs_run_on_a_device_from_outside_the_package(device: Path) -> None:
    done = neaptide(device, "run", "--policy", "temporal", "--sms", "1", "--", "python", "-c", TRAINING)
    assert (done.returncode, done.stdout) == (0, f"{device}:2 256\n"), done.stderr


def test_two_devices_of_a_kind_have_daemons_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    runtime = {name: value for name, value in os.environ.items() if name != "NEAPTIDE_RUNTIME"}
    runtime["XDG_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("n"))

    def run(index: int, *words: str) -> str:
        command = [sys.executable, "-m", "neaptide.cli", *words]
        environment = {**runtime, "NEAPTIDE_DEVICE": f"soft:{index}"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
        return done.stdout + done.stderr

    try:
        for index, policy in enumerate(("temporal", "zico")):
            assert f"policy {policy}" in run(index, "up", "--policy", policy, "--budget", "8MiB")
        assert [run(index, "status").split(", ")[1] for index in (0, 1)] == ["policy temporal", "policy zico"]
    finally:
        assert [run(index, "down") for index in (0, 1)] == ["daemon down\n"] * 2


def test_a_policy_that_needs_what_the_device_lacks_is_refused_in_one_line(device: Path) -> None:
    done = neaptide(device, "up", "--policy", "neaptide")
    assert done.returncode == 2
    assert done.stderr == (
        "neaptide: the daemon did not come up: policy neaptide needs what this device cannot supply: gate\n"
    )
