"""Jobs that share the hollow GPU under one budget: .venv-cuda/bin/python tests/campaigns/cuda_budget.py 4 600.

So many jobs train for so many seconds, under less memory than their peaks need. By its own count, contexts included,
the GPU never has more in use than the budget.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from hollow.sharing.cuda_daemon import MIB, CudaDaemon
from hollow.sharing.running import Hollow

CONTEXT_BYTES = 80 * MIB  # of a process, with the libraries that it loads
KEPT_BYTES, TIDE_BYTES = 20 * MIB, 110 * MIB  # of a job, rounded up
KERNEL_US = 2000  # of a long run: its processes wait for the GPU most of the time


def budget_of(jobs: int) -> int:
    """What all keep, and the tides of half of them."""
    return jobs * (CONTEXT_BYTES + KEPT_BYTES) + max(jobs // 2, 1) * TIDE_BYTES


@dataclass(frozen=True, slots=True)
class Figures:
    """What was seen."""

    seconds: float
    steps: Sequence[int]  # of each job
    wrong: int  # blocks, read at every step
    budget_bytes: int
    device_bytes: int  # the most that the GPU had in use, by its own count
    leased_bytes: int  # the most that the board counted
    looks: int
    furthest: float  # most that the two counts were apart at the same moment, as a share of the budget

    def __str__(self) -> str:
        most = f"device {self.device_bytes / self.budget_bytes:.4f}, leases {self.leased_bytes / self.budget_bytes:.4f}"
        return (
            f"seconds {self.seconds:.0f}, steps {list(self.steps)}, wrong {self.wrong}, "
            f"most of the budget: {most}; counts at most {self.furthest:.4f} apart in {self.looks} looks"
        )


def share(daemon: CudaDaemon, jobs: int, seconds: float) -> Figures:
    """Run jobs beside each other; each goes on until the end, and ends by itself."""
    running = [daemon.begin(f"job{index}") for index in range(jobs)]
    for job in running:
        job.has_said(1)
    began, looks, furthest = time.monotonic(), 0, 0.0
    while time.monotonic() - began < seconds:
        for _ in range(20):
            before, leased = daemon.device.used(), daemon.board.snapshot().used_bytes
            if before == daemon.device.used():  # nothing has changed meanwhile
                furthest, looks = max(furthest, abs(leased - before) / daemon.budget_bytes), looks + 1
            time.sleep(0.05)
        for job in running:
            job.goes_on(1)
    ended = daemon.end_jobs()
    figures = Figures(
        seconds=time.monotonic() - began,
        steps=[each["steps"] for each in ended],
        wrong=sum(each["wrong"] for each in ended),
        budget_bytes=daemon.budget_bytes,
        device_bytes=daemon.device.peak(),
        leased_bytes=daemon.board.snapshot().high_water_bytes,
        looks=looks,
        furthest=furthest,
    )
    assert figures.wrong == 0, figures
    assert figures.device_bytes <= daemon.budget_bytes, figures
    assert figures.leased_bytes <= daemon.budget_bytes, figures
    return figures


if __name__ == "__main__":
    count, wanted = int(sys.argv[1]), float(sys.argv[2])
    with (
        tempfile.TemporaryDirectory(prefix="npt-") as name,
        CudaDaemon(Hollow(Path(name), memory="8G", kernel_us=KERNEL_US), budget_of(count)) as real,
    ):
        print(f"{count} jobs: {share(real, count, wanted)}", flush=True)
