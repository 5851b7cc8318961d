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

import numpy as np

from neaptide.core.control.actions import Start
from neaptide.core.control.controller import Decided, Entry
from neaptide.core.control.events import Event, IterationEnded, JobArrived, JobEvicted, JobStalled
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
from neaptide.reporting.logs.log_file import read_runs
from neaptide.reporting.terminal.bench import Figure

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


@dataclass(frozen=True, slots=True)
class Waits:
    """What happened to the iterations of all jobs of a group."""

    iterations: int
    delays: int  # iterations that the policy started later than when the job's last one ended
    stalls: int  # iterations that waited for memory after they had begun
    evictions: int

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Waits:
        """Read a log. Iterations of jobs that run ahead, reported together, count once each."""
        iterations = delays = 0
        waiting: set[str] = set()  # jobs whose last iteration ended at an earlier event
        ended: str | None = None  # the job whose iteration ended at the present event
        for entry in entries:
            if isinstance(entry, Event):
                waiting |= {ended} if ended is not None else set()
                ended = entry.job if isinstance(entry, IterationEnded) else None
                iterations += entry.iterations if isinstance(entry, IterationEnded) else 0
            elif isinstance(entry, Decided) and isinstance(entry.action, Start):
                delays += entry.action.job in waiting
                waiting.discard(entry.action.job)
                ended = None if ended == entry.action.job else ended
        counts = {kind: sum(isinstance(entry, kind) for entry in entries) for kind in (JobStalled, JobEvicted)}
        return cls(iterations, delays, counts[JobStalled], counts[JobEvicted])

    def figures(self, title: str) -> Iterator[Figure]:
        """What happened, per iteration."""
        yield Figure(f"{title}: iterations", self.iterations, "iterations")
        for what, count in (("delays", self.delays), ("stalls", self.stalls), ("evictions", self.evictions)):
            yield Figure(f"{title}: {what}", count / max(self.iterations, 1), "per iteration")


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

    def counted(self, seconds: float) -> list[float]:
        """Iterations that each job ended in this time, per second; also of jobs that were away for a part of it."""
        self.go_on()
        sleep(_WARM_SECONDS)
        began_ns = monotonic_ns()
        sleep(seconds)
        ended_ns = monotonic_ns()
        self._halt()
        counts = []
        for index in range(len(self._jobs)):
            times = self._paths.folder.parent / f"job{index}.times"
            lines = times.read_text().split() if times.exists() else []  # it has not ended an iteration since the start
            counts.append(sum(began_ns <= int(end_ns) < ended_ns for end_ns in lines))
        return [1e9 * count / (ended_ns - began_ns) for count in counts]

    @property
    def waits(self) -> Waits:
        """What happened to the jobs' iterations since all of them were measured."""
        entries = read_runs(self._paths.events)[-1].entries
        arrived = [at for at, entry in enumerate(entries) if isinstance(entry, JobArrived)]
        return Waits.of(entries[arrived[-1] :])

    @property
    def evictions(self) -> tuple[int, float]:
        """How often the daemon has evicted a job, and for how many seconds the daemon has had jobs."""
        entries = read_runs(self._paths.events)[-1].entries
        times_ns = [entry.at_ns for entry in entries]
        return sum(isinstance(entry, JobEvicted) for entry in entries), (max(times_ns) - min(times_ns)) / 1e9

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
def together(loads: Sequence[Load], policy: str, budget_bytes: int | None, iterations: int = 1) -> Iterator[Together]:
    """Start jobs and wait until all are measured and have done so many `iterations` since.

    `budget_bytes` None is more than the jobs can use.
    """
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        folder = Path(name)
        paths = RuntimePaths(folder / "run")
        start_daemon(paths, policy, budget_bytes or _UNLIMITED)
        try:
            with _jobs(loads, paths, folder, False) as processes:
                measured = _all_measured(paths, len(loads), processes, iterations=iterations)
                needs_bytes = [job.needs_bytes for job in measured]
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """What happened when jobs came to another one that ran."""

    measuring_seconds: float  # from when the daemon knew of the first until all were measured
    usual_seconds: float  # between two iterations of the other job, before
    longest_seconds: float  # the same, while the newcomers were measured
    evictions: int


def arrival(first: Load, newcomers: Sequence[Load], policy: str, seconds: float) -> Arrival:
    """Run a job for `seconds`, let others come at once, and see how long the first one stands still."""
    with tempfile.TemporaryDirectory(prefix="npt-") as name:
        folder = Path(name)
        paths = RuntimePaths(folder / "run")
        start_daemon(paths, policy, _UNLIMITED)
        try:
            with _jobs([first], paths, folder, False) as processes:
                _all_measured(paths, 1, processes)
                (folder / "start").touch()
                sleep(seconds)
                with _jobs(newcomers, paths, folder, False, first=1) as others:
                    while len(_status(paths).jobs) == 1:
                        sleep(0.005)
                    came_ns = monotonic_ns()
                    _all_measured(paths, 1 + len(newcomers), [*processes, *others], 0.005, iterations=0)
                    measured_ns = monotonic_ns()
                    sleep(0.5)
        finally:
            stop_daemon(paths)
        ends_ns = np.array((folder / "job0.times").read_text().split(), dtype=np.int64)
        gaps = np.diff(ends_ns) / 1e9
        inside = (ends_ns[1:] >= came_ns) & (ends_ns[:-1] <= measured_ns)
        before = gaps[ends_ns[1:] < came_ns]
        evictions = sum(isinstance(entry, JobEvicted) for entry in read_runs(paths.events)[-1].entries)
        return Arrival((measured_ns - came_ns) / 1e9, float(np.median(before)), float(gaps[inside].max()), evictions)


@contextmanager
def _jobs(
    loads: Sequence[Load], paths: RuntimePaths, folder: Path, logged: bool, first: int = 0
) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = []
    for index, load in enumerate(loads, first):
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


def _all_measured(
    paths: RuntimePaths,
    count: int,
    processes: Sequence[subprocess.Popen[bytes]],
    look_seconds: float = 0.2,
    iterations: int = 1,
) -> list[JobStatus]:
    deadline = monotonic() + _PATIENCE_SECONDS
    while monotonic() < deadline:
        jobs = _measured(paths)
        if len(jobs) == count and all(job.iterations_done >= iterations for job in jobs):
            return jobs
        for index, process in enumerate(processes):
            if process.poll() is not None:
                last = (paths.folder.parent / f"job{index}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"job{index} ended early with {process.returncode}:\n{last}")
        sleep(look_seconds)
    raise RuntimeError("the jobs were not measured in time")


def _measured(paths: RuntimePaths) -> list[JobStatus]:
    return sorted((job for job in _status(paths).jobs if job.solo_seconds > 0), key=lambda job: int(job.name[3:]))


def _status(paths: RuntimePaths) -> Status:
    status = ask(paths, StatusRequest())
    assert isinstance(status, Status)
    return status
