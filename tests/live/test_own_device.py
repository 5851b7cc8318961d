"""The device of docs/writing-a-device.md, from a folder outside the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("processes")

GUIDE = Path(__file__).parents[2] / "docs" / "writing-a-device.md"
SECONDS = 120.0
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


def test_a_policy_that_needs_what_the_device_lacks_is_refused_in_one_line(device: Path) -> None:
    done = neaptide(device, "up", "--policy", "neaptide")
    assert done.returncode == 2
    assert done.stderr == (
        "neaptide: the daemon did not come up: policy neaptide needs what this device cannot supply: gate\n"
    )
