"""Trainings that run at the same time: under a daemon, or without neaptide."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns, sleep

import msgspec

from neaptide.core.control.events import JobEvicted
from neaptide.devices import Board, default_kind
from neaptide.live.protocol.messages import Status
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.attendance import status_now
from neaptide.live.runs.launching import JobCommand, environment_of, environment_without_daemon
from neaptide.live.runs.supervisor import JobResult, Supervisor
from neaptide.live.runs.without_neaptide import device_without_daemon
from neaptide.reporting.logs.log_file import read_runs
from neaptide.verification.device_count import DeviceCount, wait_for_rest
from neaptide.verification.facts import Load, Training
from neaptide.verification.own_daemon import own_daemon

DIGEST_ITERATIONS = 12
_WARM_ITERATIONS = 10  # the first four are measured
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 180.0  # for the first iterations, and for the last
# Without it cuBLAS may add in another order from one run to the next.
_DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
_PROGRAM = "neaptide.verification.programs.training"


@dataclass(frozen=True, slots=True)
class Group:
    """Which jobs run together, and under what. Without a policy there is no daemon and no limit."""

    title: str
    loads: Sequence[Load]
    policy: str | None = None
    budget_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GroupRun:
    """What happened. The trainings and rates are in the order of the loads, and empty if a job failed."""

    group: Group
    results: tuple[JobResult, ...]
    problem: str = ""  # why it was cut short
    trainings: tuple[Training, ...] = ()
    rates: tuple[float, ...] = ()  # iterations per second, when all had begun
    leased_bytes: int = 0  # the most, by the board
    counted_bytes: int | None = None  # the most, by the device's own count
    looks: int = 0
    evictions: int = 0
    needs_bytes: tuple[int, ...] = ()  # leases, as the daemon measured them
    persistent_bytes: tuple[int, ...] = ()

    @property
    def ended_well(self) -> bool:
        return not self.problem and all(result.code == 0 for result in self.results)


@dataclass(frozen=True, slots=True)
class _Place:
    paths: RuntimePaths
    board: Board
    environments: Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class Groups:
    """Runs groups one after another, each in a folder of its own below `folder`."""

    folder: Path
    seconds: float  # for which each group is watched
    bytes_at_rest: int | None
    runs: list[GroupRun] = field(default_factory=list)

    def run(self, group: Group) -> GroupRun:
        """Start the jobs, watch them for a while, and have them end."""
        wait_for_rest(self.bytes_at_rest)
        folder = self.folder / f"g{len(self.runs)}"
        folder.mkdir()
        jobs = [self._job(f"job{index}", load, folder) for index, load in enumerate(group.loads)]
        supervisor = Supervisor(folder)
        with self._place(group, jobs, folder) as place, DeviceCount(self.bytes_at_rest) as count:
            try:
                supervisor.start(jobs, lambda job: place.environments[job.name])
                window_ns, status, problem = self._look(supervisor, place, folder, len(jobs))
            finally:
                supervisor.kill()
            leased_bytes = place.board.snapshot().high_water_bytes
            evictions = _evictions(place.paths) if group.policy else 0
        results = tuple(sorted(supervisor.results, key=lambda result: result.name))
        trainings = tuple(_training(folder / f"{job.name}.json") for job in jobs) if not problem else ()
        whole = tuple(each for each in trainings if each is not None)
        measured = sorted(status.jobs, key=lambda job: job.name) if status is not None else []
        run = GroupRun(
            group,
            results,
            problem,
            trainings=whole if len(whole) == len(jobs) else (),
            rates=tuple(each.rate(*window_ns) for each in whole) if len(whole) == len(jobs) else (),
            leased_bytes=leased_bytes,
            counted_bytes=count.most_bytes,
            looks=count.looks,
            evictions=evictions,
            needs_bytes=tuple(job.needs_bytes for job in measured),
            persistent_bytes=tuple(job.persistent_bytes for job in measured),
        )
        self.runs.append(run)
        return run

    def _job(self, name: str, load: Load, folder: Path) -> JobCommand:
        words = (load.network, load.scale, str(load.batch), str(DIGEST_ITERATIONS), str(folder), name)
        # What is measured of these jobs is of no use to anybody else.
        environment = {**_DETERMINISTIC, "NEAPTIDE_PROFILES": str(folder / "profiles")}
        return JobCommand(name=name, command=(sys.executable, "-m", _PROGRAM, *words), environment=environment)

    @contextmanager
    def _place(self, group: Group, jobs: Sequence[JobCommand], folder: Path) -> Iterator[_Place]:
        settings = default_kind().settings_type()
        if group.policy is None:
            with device_without_daemon(None) as (paths, board):
                yield _Place(
                    paths, board, {job.name: environment_without_daemon(job, settings, paths.board) for job in jobs}
                )
            return
        assert group.budget_bytes is not None
        paths = RuntimePaths(folder / "run")
        with own_daemon(paths, group.policy, group.budget_bytes):
            board = Board.open(paths.board)
            try:
                yield _Place(paths, board, {job.name: environment_of(job, settings, paths) for job in jobs})
            finally:
                board.close()

    def _look(
        self, supervisor: Supervisor, place: _Place, folder: Path, count: int
    ) -> tuple[tuple[int, int], Status | None, str]:
        """When all jobs ran side by side, the daemon's status at the end of that, and what went wrong."""
        problem = _wait(supervisor, lambda: _fewest_steps(folder, count) >= _WARM_ITERATIONS, "begin")
        began_ns, until = monotonic_ns(), monotonic() + self.seconds
        problem = problem or _wait(supervisor, lambda: monotonic() >= until, "go on")
        status, ended_ns = status_now(place.paths) if not problem else None, monotonic_ns()
        (folder / "stop").touch()
        until = monotonic() + _PATIENCE_SECONDS
        while supervisor.running and monotonic() < until:
            supervisor.poll()
            sleep(_POLL_SECONDS)
        if supervisor.running:
            problem = problem or f"{', '.join(supervisor.running)} did not end within {_PATIENCE_SECONDS:.0f} s"
        return (began_ns, ended_ns), status, problem


def _wait(supervisor: Supervisor, true: Callable[[], bool], what: str) -> str:
    """Wait for a condition; what went wrong, if a job ended or nothing happened meanwhile."""
    until = monotonic() + _PATIENCE_SECONDS
    while not true():
        if ended := supervisor.poll():
            last = " ".join(ended[0].last_lines[-1:])
            return f"{ended[0].name} ended early with {ended[0].how}: {last}"
        if monotonic() > until:
            return f"the jobs did not {what} within {_PATIENCE_SECONDS:.0f} s"
        sleep(_POLL_SECONDS)
    return ""


def _fewest_steps(folder: Path, count: int) -> int:
    files = list(folder.glob("*.steps"))
    return min(file.stat().st_size for file in files) if len(files) == count else 0


def _training(file: Path) -> Training | None:
    return msgspec.json.decode(file.read_bytes(), type=Training) if file.exists() else None


def _evictions(paths: RuntimePaths) -> int:
    status_now(paths)  # has the log written up to now
    return sum(isinstance(entry, JobEvicted) for entry in read_runs(paths.events)[-1].entries)
