"""Jobs under their own daemon, for as long as a benchmark needs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, monotonic_ns, sleep

from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import decode
from neaptide.devices import default_kind
from neaptide.devices.board import Board
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.lock import running_pid
from neaptide.live.protocol.messages import JobStatus, Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.live.runs.starting import start_daemon, stop_daemon

_ROOT = Path(__file__).parent.parent  # the folder of the package `benchmarks`
_UNLIMITED = 16 << 30
_PATIENCE_SECONDS = 120.0
_WARM_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """A job: a network of `_networks` or a tiny one of the zoo, and the SMs that a kernel may use (None: all).

    If the job varies its batches, `batch` is the largest.
    """

    network: str
    batch: int
    sms: int | None
    varies: bool = False


def spans_of(loads: Sequence[Load], policy: str, seconds: float) -> list[list[tuple[int, int]]]:
    """Run jobs with unlimited memory until all are measured, then for `seconds` with a kernel log.

    Returns for each job, in the order of the loads, when the device began and ended its iterations, in nanoseconds.
    """
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        folder = Path(name)
        paths = RuntimePaths(folder / "run")
        start_daemon(paths, policy, _UNLIMITED)
        try:
            with _jobs(loads, paths, folder, True) as processes:
                _all_measured(paths, len(loads), processes)
                sleep(1.0)
                (folder / "start").touch()
                began_ns = monotonic_ns()
                sleep(seconds)
                ended_ns = monotonic_ns()
                (folder / "stop").touch()
                deadline = monotonic() + _PATIENCE_SECONDS
                for process in processes:
                    if process.wait(max(1.0, deadline - monotonic())) != 0:
                        raise RuntimeError(f"a job ended with {process.returncode}; see its output")
        finally:
            stop_daemon(paths)
        spans = []
        for index in range(len(loads)):
            lines = (folder / f"job{index}.times").read_text().splitlines()
            rows = [(int(start), int(end)) for start, end in map(str.split, lines)]
            spans.append([row for row in rows if began_ns <= row[1] < ended_ns])
        return spans


class Together:
    """Jobs under their own daemon. All of them are stopped except while they are measured.

    So several groups can take turns, and a disturbance of the machine affects all of them.
    """

    def __init__(self, paths: RuntimePaths, processes: list[subprocess.Popen[bytes]], needs_bytes: list[int]) -> None:
        self.needs_bytes = needs_bytes
        self._paths = paths
        self._jobs = processes
        pid = running_pid(paths)
        assert pid is not None
        self._daemon = pid
        self._halt()

    def rates(self, seconds: float) -> list[float]:
        """Iterations per second of each job, in the order of the loads."""
        self.go_on()
        sleep(_WARM_SECONDS)
        began_ns = monotonic_ns()
        sleep(seconds)
        self.needs_bytes = [job.needs_bytes for job in _measured(self._paths)]
        self._halt()
        rates = []
        for index in range(len(self._jobs)):
            lines = (self._paths.folder.parent / f"job{index}.times").read_text().split()
            ends_ns = [end_ns for end_ns in map(int, lines) if end_ns >= began_ns]
            rates.append((len(ends_ns) - 1) / (ends_ns[-1] - ends_ns[0]) * 1e9 if len(ends_ns) > 1 else 0.0)
        return rates

    def traces(self) -> list[Trace]:
        """The traces that the daemon has of the jobs, in the order of the loads."""
        folder = self._paths.folder / "traces"
        return [decode((folder / f"job{index}.trace").read_bytes()) for index in range(len(self._jobs))]

    @property
    def high_water_bytes(self) -> int:
        """The most bytes that were ever leased, as the board counts them."""
        board = Board.open(self._paths.board)
        try:
            return board.snapshot().high_water_bytes
        finally:
            board.close()

    def _halt(self) -> None:
        for pid in (self._daemon, *(process.pid for process in self._jobs)):
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the jobs and the daemon."""
        for process in self._jobs:
            process.send_signal(signal.SIGCONT)
        sleep(0.1)  # so that the daemon finds no stopped job
        os.kill(self._daemon, signal.SIGCONT)


@contextmanager
def together(loads: Sequence[Load], policy: str, budget_bytes: int | None) -> Iterator[Together]:
    """Start jobs and wait until all are measured. `budget_bytes` None is more than the jobs can use."""
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        folder = Path(name)
        paths = RuntimePaths(folder / "run")
        start_daemon(paths, policy, budget_bytes or _UNLIMITED)
        try:
            with _jobs(loads, paths, folder, False) as processes:
                needs_bytes = [job.needs_bytes for job in _all_measured(paths, len(loads), processes)]
                (folder / "start").touch()
                group = Together(paths, processes, needs_bytes)
                try:
                    yield group
                finally:
                    group.go_on()
        finally:
            stop_daemon(paths)


def in_turn(groups: Sequence[Together], seconds: float, index: int) -> list[list[float]]:
    """Measure the rates of the groups one after another, in the opposite order every other round."""
    order = range(len(groups)) if index % 2 else reversed(range(len(groups)))
    rates = {at: groups[at].rates(seconds) for at in order}
    return [rates[at] for at in range(len(groups))]


@contextmanager
def _jobs(
    loads: Sequence[Load], paths: RuntimePaths, folder: Path, logged: bool
) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = []
    for index, load in enumerate(loads):
        words = [load.network, str(load.batch), "yes" if load.varies else "no"]
        words += [str(folder), f"job{index}", "yes" if logged else "no"]
        command = JobCommand(name=f"job{index}", command=(sys.executable, "-m", "benchmarks._live_job", *words))
        settings = default_kind().settings_type(sms=load.sms, cuda_as_soft=False)
        environment = environment_of(command, settings, paths)
        with (folder / f"job{index}.log").open("wb") as output:
            processes.append(
                subprocess.Popen(command.command, cwd=_ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
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
        jobs = _measured(paths)
        if len(jobs) == count and all(job.iterations_done > 0 for job in jobs):
            return jobs
        for index, process in enumerate(processes):
            if process.poll() is not None:
                last = (paths.folder.parent / f"job{index}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"job{index} ended early with {process.returncode}:\n{last}")
        sleep(0.2)
    raise RuntimeError("the jobs were not measured in time")


def _measured(paths: RuntimePaths) -> list[JobStatus]:
    status = ask(paths, StatusRequest())
    assert isinstance(status, Status)
    return sorted((job for job in status.jobs if job.solo_seconds > 0), key=lambda job: int(job.name[3:]))
