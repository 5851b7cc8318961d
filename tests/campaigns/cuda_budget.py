"""Jobs that share the hollow GPU under one budget: .venv-cuda/bin/python tests/campaigns/cuda_budget.py 4 600.

So many jobs train for so many seconds, under less memory than their peaks need. By its own count, contexts and buffers
of libraries included, the GPU never has more in use than the budget. The pages that jobs have are what is leased for
tensors, and contexts and buffers are within what is kept for them.
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
    beyond_bytes: int  # the most that contexts and buffers were beyond what was kept for them
    leased_bytes: int  # the most that the board counted
    apart: Sequence[float]  # pages that jobs have and leases for tensors at the same moments, as shares of the budget

    def __str__(self) -> str:
        most = f"device {self.device_bytes / self.budget_bytes:.4f}, leases {self.leased_bytes / self.budget_bytes:.4f}"
        near = sum(each <= NEAR for each in self.apart) / len(self.apart)
        return (
            f"seconds {self.seconds:.0f}, steps {list(self.steps)}, wrong {self.wrong}, most of the budget: {most}; "
            f"beyond allowances {self.beyond_bytes} bytes; "
            f"counts at most {self.apart[-1]:.4f} apart, in {near:.2%} of {len(self.apart)} looks within {NEAR:.0%}"
        )


def share(daemon: CudaDaemon, jobs: int, seconds: float) -> Figures:
    """Run jobs beside each other; each goes on until the end, and ends by itself."""
    running = [daemon.begin(f"job{index}") for index in range(jobs)]
    for job in running:
        job.has_said(1)
    began, apart, beyond_bytes, table = time.monotonic(), list[float](), 0, PageTable(daemon.board)
    while time.monotonic() - began < seconds:
        for _ in range(20):
            sight = _counts(daemon, table)
            if sight == _counts(daemon, table):  # nothing has changed meanwhile
                apart.append(abs(sight.page_bytes - sight.leased_bytes) / daemon.budget_bytes)
                beyond_bytes = max(beyond_bytes, sight.other_bytes - sight.allowance_bytes)
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
        beyond_bytes=beyond_bytes,
        leased_bytes=daemon.board.snapshot().high_water_bytes,
        apart=sorted(apart),
    )
    assert figures.wrong == 0, figures
    assert figures.device_bytes <= daemon.budget_bytes, figures
    assert figures.leased_bytes <= daemon.budget_bytes, figures
    assert figures.beyond_bytes == 0, figures
    return figures


@dataclass(frozen=True, slots=True)
class _Sight:
    page_bytes: int  # that jobs have, by the device's count
    leased_bytes: int  # for tensors
    other_bytes: int  # contexts and buffers of libraries, by the device's count
    allowance_bytes: int  # that is kept for them


def _counts(daemon: CudaDaemon, table: PageTable) -> _Sight:
    pages = table.counts()
    unowned_bytes = (pages.free + pages.retiring) * daemon.board.chunk_bytes
    other_bytes = sum(each.bytes for each in daemon.device.processes() if each.context_bytes)
    allowance_bytes = table.allowance_bytes
    return _Sight(
        page_bytes=daemon.device.used() - unowned_bytes - other_bytes,
        leased_bytes=daemon.board.snapshot().used_bytes - allowance_bytes,
        other_bytes=other_bytes,
        allowance_bytes=allowance_bytes,
    )


if __name__ == "__main__":
    count, wanted = int(sys.argv[1]), float(sys.argv[2])
    with (
        tempfile.TemporaryDirectory(prefix="npt-") as name,
        CudaDaemon(Hollow(Path(name), memory="8G", kernel_us=KERNEL_US), budget_of(count)) as real,
    ):
        print(f"{count} jobs: {share(real, count, wanted)}", flush=True)
