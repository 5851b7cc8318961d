"""Jobs that share the hollow GPU under one budget: .venv-cuda/bin/python tests/campaigns/cuda_budget.py 4 600.

So many jobs train for so many seconds, under less memory than their peaks need. By its own count, contexts included,
the GPU never has more in use than the budget. What it has in use, without the pages that no job has, is what is leased.
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
from neaptide.devices.cuda.page_table import PageTable

CONTEXT_BYTES = 96 * MIB  # of a process, with what is kept for its libraries
KEPT_BYTES, TIDE_BYTES = 20 * MIB, 110 * MIB  # of a job, rounded up
NEAR = 0.03  # of the budget
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
    apart: Sequence[float]  # the two counts at the same moments, as shares of the budget, in order

    def __str__(self) -> str:
        most = f"device {self.device_bytes / self.budget_bytes:.4f}, leases {self.leased_bytes / self.budget_bytes:.4f}"
        near = sum(each <= NEAR for each in self.apart) / len(self.apart)
        return (
            f"seconds {self.seconds:.0f}, steps {list(self.steps)}, wrong {self.wrong}, most of the budget: {most}; "
            f"counts at most {self.apart[-1]:.4f} apart, in {near:.2%} of {len(self.apart)} looks within {NEAR:.0%}"
        )


def share(daemon: CudaDaemon, jobs: int, seconds: float) -> Figures:
    """Run jobs beside each other; each goes on until the end, and ends by itself."""
    running = [daemon.begin(f"job{index}") for index in range(jobs)]
    for job in running:
        job.has_said(1)
    began, apart, table = time.monotonic(), list[float](), PageTable(daemon.board)
    while time.monotonic() - began < seconds:
        for _ in range(20):
            sight = _counts(daemon, table)
            if sight == _counts(daemon, table):  # nothing has changed meanwhile
                device_bytes, leased_bytes = sight
                apart.append(abs(device_bytes - leased_bytes) / daemon.budget_bytes)
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
        apart=sorted(apart),
    )
    assert figures.wrong == 0, figures
    assert figures.device_bytes <= daemon.budget_bytes, figures
    assert figures.leased_bytes <= daemon.budget_bytes, figures
    return figures


def _counts(daemon: CudaDaemon, table: PageTable) -> tuple[int, int]:
    """What the device has in use, without the pages that no job has, and what is leased."""
    pages = table.counts()
    unowned_bytes = (pages.free + pages.retiring) * daemon.board.chunk_bytes
    return daemon.device.used() - unowned_bytes, daemon.board.snapshot().used_bytes


if __name__ == "__main__":
    count, wanted = int(sys.argv[1]), float(sys.argv[2])
    with (
        tempfile.TemporaryDirectory(prefix="npt-") as name,
        CudaDaemon(Hollow(Path(name), memory="8G", kernel_us=KERNEL_US), budget_of(count)) as real,
    ):
        print(f"{count} jobs: {share(real, count, wanted)}", flush=True)
