"""Jobs of the zoo under a daemon of their own, for as long as a benchmark wants."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns, sleep

from neaptide.devices.board import Board
from neaptide.live.asking import ask
from neaptide.live.launching import DeviceSettings, JobCommand, environment_of
from neaptide.live.paths import RuntimePaths
from neaptide.live.protocol import JobStatus, Status, StatusRequest
from neaptide.live.starting import start_daemon, stop_daemon

_JOB = Path(__file__).parent / "_live_job.py"
_UNLIMITED = 16 << 30
_PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Load:
    """A job: a network of the zoo and the SMs that its kernels may use; None for all."""

    model: str
    scale: str
    batch: int
    sms: int | None

    def __str__(self) -> str:
        return f"{self.model} {self.scale}" + (" narrow" if self.sms == 1 else "")


@dataclass(slots=True)
class Seen:
    """What was seen of a window. Rates are iterations per second, in the order of the loads."""

    rates: list[float] = field(default_factory=list)
    needs_bytes: list[int] = field(default_factory=list)
    high_water_bytes: int = 0
    spans_ns: list[list[tuple[int, int]]] = field(default_factory=list)  # of the device, with a kernel log


def watch(
    loads: Sequence[Load], policy: str, budget_bytes: int | None, seconds: float, *, logged: bool = False
) -> Seen:
    """Run jobs together until all are measured, then for a window; `budget_bytes` None is more than they can use."""
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        folder = Path(name)
        paths = RuntimePaths(folder / "run")
        start_daemon(paths, policy, budget_bytes or _UNLIMITED, os.cpu_count() or 1)
        try:
            with _jobs(loads, paths, folder, logged) as processes:
                seen.needs_bytes = [job.needs_bytes for job in _all_measured(paths, len(loads), processes)]
                sleep(1.0)
                (folder / "start").touch()
                began = monotonic_ns()
                sleep(seconds)
                ended = monotonic_ns()
                (folder / "stop").touch()
                deadline = monotonic() + _PATIENCE_SECONDS
                for process in processes:
                    if process.wait(max(1.0, deadline - monotonic())) != 0:
                        raise RuntimeError(f"a job ended with {process.returncode}; see its output")
            board = Board.open(paths.board)
            seen.high_water_bytes = board.snapshot().high_water_bytes
            board.close()
        finally:
            stop_daemon(paths)
        for index in range(len(loads)):
            lines = (folder / f"job{index}.times").read_text().split("\n")
            rows = [[int(part) for part in line.split()] for line in lines if line]
            inside = [row for row in rows if began <= row[-1] < ended]
            seen.rates.append(len(inside) / ((ended - began) / 1e9))
            if logged:
                seen.spans_ns.append([(row[0], row[1]) for row in inside])
    return seen


def run_to_the_end(jobs: Sequence[tuple[Load, int]], policy: str, share: float, folder: Path) -> None:
    """Run jobs for so many iterations each, under a budget that is a share of the sum of their peaks.

    What came of it is in `run`, the daemon's folder: its log, the traces, and files `budget` and `high-water`.
    """
    loads = [load for load, _ in jobs]
    budget_bytes = round(share * sum(watch([load], "temporal", None, 1.0).needs_bytes[0] for load in loads))
    paths = RuntimePaths(folder / "run")
    start_daemon(paths, policy, budget_bytes, os.cpu_count() or 1)
    try:
        with _jobs(loads, paths, folder, False, [count for _, count in jobs]) as processes:
            _all_measured(paths, len(loads), processes)
            for process in processes:
                if process.wait(_PATIENCE_SECONDS) != 0:
                    raise RuntimeError(f"a job ended with {process.returncode}; see its output")
        board = Board.open(paths.board)
        (paths.folder / "high-water").write_text(str(board.snapshot().high_water_bytes))
        board.close()
    finally:
        stop_daemon(paths)
    (paths.folder / "budget").write_text(str(budget_bytes))


@contextmanager
def _jobs(
    loads: Sequence[Load], paths: RuntimePaths, folder: Path, logged: bool, counts: Sequence[int] | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = []
    for index, load in enumerate(loads):
        words = [load.model, load.scale, str(load.batch), str(folder), f"job{index}", "yes" if logged else "no"]
        if counts is not None:
            words.append(str(counts[index]))
        command = JobCommand(name=f"job{index}", command=(sys.executable, str(_JOB), *words))
        environment = environment_of(command, DeviceSettings(sms=load.sms, cuda_as_soft=False), paths)
        with (folder / f"job{index}.log").open("wb") as output:
            processes.append(
                subprocess.Popen(command.command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            )
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _all_measured(paths: RuntimePaths, count: int, processes: Sequence[subprocess.Popen[bytes]]) -> list[JobStatus]:
    deadline = monotonic() + _PATIENCE_SECONDS
    while monotonic() < deadline:
        status = ask(paths, StatusRequest())
        assert isinstance(status, Status)
        jobs = sorted((job for job in status.jobs if job.solo_seconds > 0), key=lambda job: int(job.name[3:]))
        if len(jobs) == count and all(job.iterations_done > 0 for job in jobs):
            return jobs
        for index, process in enumerate(processes):
            if process.poll() is not None:
                last = (paths.folder.parent / f"job{index}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"job{index} ended early with {process.returncode}:\n{last}")
        sleep(0.2)
    raise RuntimeError("the jobs were not measured in time")
