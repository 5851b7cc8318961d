"""What one job alone pays for being under the daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from neaptide.live.launching import DeviceSettings, JobCommand, environment_of
from neaptide.live.paths import RuntimePaths
from neaptide.live.starting import start_daemon, stop_daemon
from neaptide.reporting.bench import Figure

# name, scale, batch: steps of about 10, 40 and 300 ms on two cores
STEPS = (("gpt2", "tiny", 4), ("resnet18", "tiny", 64), ("resnet18", "paper", 4))
ROUNDS = 4
SECONDS = 3.0
WARM_UP = 20  # iterations: it is measured in the first ones


def figures() -> Iterator[Figure]:
    """Plain and under the daemon in turn; a step as it is while nothing disturbs it."""
    for name, scale, batch in STEPS:
        plain, under = [], []
        for _ in range(ROUNDS):
            plain.append(_run(None, name, scale, batch))
            with tempfile.TemporaryDirectory(prefix="npt-") as folder:
                paths = RuntimePaths(Path(folder) / "run")
                start_daemon(paths, "neaptide", 8 << 30, os.cpu_count() or 1)
                try:
                    under.append(_run(paths, name, scale, batch))
                finally:
                    stop_daemon(paths)
        yield Figure(f"{name} {scale}: plain step", 1e3 * min(plain), "ms")
        yield Figure(f"{name} {scale}: a step under the daemon", min(under) / min(plain), "x", "<= 1.01")


def _run(paths: RuntimePaths | None, name: str, scale: str, batch: int) -> float:
    command = (sys.executable, __file__, name, scale, str(batch))
    environment = dict(os.environ)
    if paths is not None:
        job = JobCommand(name="job", command=command)
        environment = environment_of(job, DeviceSettings(cuda_as_soft=False), paths)
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(run.stdout.splitlines()[-1]))


def _steps(name: str, scale: str, batch: str) -> float:
    import torch

    import neaptide.devices.soft  # noqa: F401
    from neaptide.models import build

    torch.manual_seed(0)
    work = build(name, batch=int(batch), scale=scale, device="soft")  # type: ignore[arg-type]
    for _ in range(WARM_UP):
        work.step()
    times: list[float] = []
    while sum(times) < SECONDS:
        torch.soft.synchronize()
        started = perf_counter()
        for _ in range(4):  # as a program runs: it does not wait for every step
            work.step()
        torch.soft.synchronize()
        times.append((perf_counter() - started) / 4)
    times.sort()
    return median(times[: max(1, len(times) // 4)])


if __name__ == "__main__":
    print(json.dumps(_steps(*sys.argv[1:])))
