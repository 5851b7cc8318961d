"""What every campaign does: honest jobs go on beside the faults, and the daemon's memory stays flat."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# A campaign is also a program.
sys.path.insert(0, str(Path(__file__).parents[1]))

from daemons import DaemonProcess, goes_on
from fake_job import FakeJob

MOST_GROWTH_BYTES = 24 << 20


@dataclass(frozen=True, slots=True)
class Figures:
    """The outcome of a campaign."""

    faults: int
    seconds: float
    iterations: int  # of the honest jobs meanwhile
    grown_bytes: int  # of the daemon, since it was warm

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {value:.1f}" if name == "seconds" else f"{name} {value}" for name, value in asdict(self).items()
        )


def memory_bytes(pid: int) -> int:
    """The memory that a process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


class Witnesses:
    """Honest jobs, whose going on is asked for again and again."""

    def __init__(self, jobs: list[FakeJob]) -> None:
        self._jobs = jobs
        self._began = time.monotonic()
        self._before = self.iterations
        self.all_go_on()

    @property
    def iterations(self) -> int:
        return sum(job.done for job in self._jobs)

    def all_go_on(self) -> None:
        """Wait until each has done more, and see that none was refused."""
        for job in self._jobs:
            goes_on(job, 2)
            assert job.refused is None

    def figures(self, faults: int, grown_bytes: int) -> Figures:
        self.all_go_on()
        return Figures(faults, time.monotonic() - self._began, self.iterations - self._before, grown_bytes)


def main(campaign: Callable[[DaemonProcess, int], Figures]) -> None:
    """Run a campaign as a program."""
    count = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="neaptide-") as folder:
        daemon = DaemonProcess(Path(folder) / "run")
        try:
            print(campaign(daemon, count))
        finally:
            print(daemon.stop()[-2000:], file=sys.stderr)
