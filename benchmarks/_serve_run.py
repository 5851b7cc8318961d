"""A real server and a training job under their own daemon, for as long as `neaptide bench serve` needs them.

Several such groups live at once. All processes of a group are stopped except while it is measured, so that the groups
take turns and a disturbance of the machine affects all of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isnan
from pathlib import Path
from time import monotonic, monotonic_ns, sleep

from benchmarks._serve_load import Tail, closed, offer

from neaptide.core.traces.trace import Trace
from neaptide.core.traces.trace_format import decode
from neaptide.devices import default_kind
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.lock import running_pid
from neaptide.live.protocol.messages import Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths, prepare
from neaptide.live.runs.launching import JobCommand, environment_of, environment_without_daemon
from neaptide.live.runs.starting import start_daemon, stop_daemon

_ROOT = Path(__file__).parent.parent  # the folder of the package `benchmarks`
_BUDGET_BYTES = 8 << 30  # more than both need: what is measured is the device's time
_PATIENCE_SECONDS = 120.0
_ANSWERS_SECONDS = 20.0  # until the last answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Who shares the device, and by which rule."""

    name: str
    policy: str | None = "neaptide"  # None: without a daemon
    serves: bool = True
    trains: bool = True
    asked: bool = True  # whether requests come
    latency_critical: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What the server and the training job compute, and the device's SMs."""

    sms: int = 1
    batch: int = 8
    threads: bool = False  # `def` endpoints
    training_batch: int = 16


@dataclass(frozen=True, slots=True)
class Round:
    """What was seen of one group in one round."""

    requests: tuple[tuple[float, float], ...]  # when each was due and how long it took, in seconds; infinite: lost
    rate: float  # of the training, in iterations per second

    @property
    def latencies(self) -> tuple[float, ...]:
        return tuple(took for _, took in self.requests)

    @property
    def tail(self) -> Tail:
        return Tail(self.latencies)

    def kept(self, slo_seconds: float) -> int:
        return sum(each <= slo_seconds for each in self.latencies)

    def last_late(self, slo_seconds: float) -> float:
        """When the last request was due that took longer; 0 if there was none."""
        return max((due for due, took in self.requests if took > slo_seconds and not isnan(due)), default=0.0)


class Group:
    """The processes of one setting."""

    def __init__(self, folder: Path, paths: RuntimePaths, jobs: dict[str, subprocess.Popen[bytes]]) -> None:
        self._folder, self._paths, self._jobs = folder, paths, jobs
        self._daemon = running_pid(paths)

    @property
    def port(self) -> int:
        return int((self._folder / "port").read_text())

    def trace(self, job: str) -> Trace:
        """An iteration of a job, as the daemon knows it."""
        return decode((self._paths.folder / "traces" / f"{job}.trace").read_bytes())

    def service_seconds(self, count: int) -> list[float]:
        """How long each of so many requests takes that come one after the other."""
        self.go_on()
        took = asyncio.run(closed(self.port, count))
        self.halt()
        return took

    def measure(self, times: Sequence[float], warm_seconds: float, seconds: float) -> Round:
        """Offer requests at these times for the warm-up and the round; what the warm-up showed is forgotten."""
        self.go_on()
        began_ns = monotonic_ns() + round(1e9 * warm_seconds)
        until = monotonic() + warm_seconds + seconds
        seen = asyncio.run(offer(self.port, times, _ANSWERS_SECONDS)) if times else []
        sleep(max(0.0, until - monotonic()))
        self.halt()
        inside = tuple(each for each in seen if isnan(each[0]) or warm_seconds <= each[0] < warm_seconds + seconds)
        return Round(inside, self._rate(began_ns, began_ns + round(1e9 * seconds)))

    def send(self, job: str, number: signal.Signals) -> None:
        """Send one of its jobs a signal."""
        self._jobs[job].send_signal(number)

    def longest_wait_seconds(self, began_ns: int, ended_ns: int) -> float:
        """The longest time between two ends of iterations of the training, or from the last one to the end."""
        ends_ns = [began_ns, *self._ends_ns(began_ns, ended_ns), ended_ns]
        return max(after - before for before, after in pairwise(ends_ns)) / 1e9

    def _ends_ns(self, began_ns: int, ended_ns: int) -> list[int]:
        file = self._folder / "training.times"
        ends_ns = [int(each) for each in file.read_text().split()] if file.exists() else []
        return [each for each in ends_ns if began_ns <= each <= ended_ns]

    def _rate(self, began_ns: int, ended_ns: int) -> float:
        """Iterations per second, from the first end in this time to the last one."""
        inside = self._ends_ns(began_ns, ended_ns)
        if len(inside) < 2:
            return len(inside) / (ended_ns - began_ns) * 1e9
        return (len(inside) - 1) / (inside[-1] - inside[0]) * 1e9

    def halt(self) -> None:
        if self._daemon is not None:
            os.kill(self._daemon, signal.SIGSTOP)
        for job in self._jobs.values():
            job.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        for job in self._jobs.values():
            job.send_signal(signal.SIGCONT)
        sleep(0.1)  # so that the daemon finds no stopped job
        if self._daemon is not None:
            os.kill(self._daemon, signal.SIGCONT)
        sleep(0.2)


@contextmanager
def group(setting: Setting, sizes: Sizes, slo_seconds: float | None) -> Iterator[Group]:
    """Start a group, wait until its jobs are measured, and stop it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="npt-")))
        paths = RuntimePaths(folder / "run")
        board = default_kind().board_settings_type(sms=sizes.sms)  # type: ignore[call-arg]
        if setting.policy is None:
            prepare(paths)
            stack.callback(default_kind().create_board(paths.board, _BUDGET_BYTES, board).close)
        else:
            start_daemon(paths, setting.policy, _BUDGET_BYTES, board)
            stack.callback(stop_daemon, paths)
        (folder / "start").touch()
        jobs = dict[str, subprocess.Popen[bytes]]()
        stack.callback(_end, jobs)
        if setting.serves:
            jobs["server"] = _server(setting, sizes, slo_seconds, folder, paths)
        if setting.trains:
            jobs["training"] = _training(sizes, folder, paths)
        if setting.policy is None:
            _wait_until_it_answers(folder, jobs)
        else:
            _wait_until_measured(folder, paths, jobs)
        found = Group(folder, paths, jobs)
        found.halt()
        stack.callback(found.go_on)
        yield found


def _server(
    setting: Setting, sizes: Sizes, slo_seconds: float | None, folder: Path, paths: RuntimePaths
) -> subprocess.Popen[bytes]:
    style = "def" if sizes.threads else "async"
    words = (sys.executable, "-m", "benchmarks._serve_app", str(sizes.batch), style, str(folder / "port"))
    job = JobCommand(
        name="server",
        command=words,
        kind="inference",
        deadline_seconds=slo_seconds,
        latency_critical=setting.latency_critical,
    )
    return _start(job, folder, paths, managed=setting.policy is not None)


def _training(sizes: Sizes, folder: Path, paths: RuntimePaths) -> subprocess.Popen[bytes]:
    words = ("GPT-2", str(sizes.training_batch), "no", str(folder), "training", "no")
    command = JobCommand(name="training", command=(sys.executable, "-m", "benchmarks._live_job", *words))
    return _start(command, folder, paths)


def _start(job: JobCommand, folder: Path, paths: RuntimePaths, managed: bool = True) -> subprocess.Popen[bytes]:
    settings = default_kind().settings_type(cuda_as_soft=False)  # type: ignore[call-arg]
    own = environment_of(job, settings, paths) if managed else environment_without_daemon(job, settings, paths.board)
    with (folder / f"{job.name}.log").open("wb") as output:
        return subprocess.Popen(job.command, cwd=_ROOT, env=own, stdout=output, stderr=subprocess.STDOUT)


def _end(jobs: dict[str, subprocess.Popen[bytes]]) -> None:
    for job in jobs.values():
        job.kill()
        job.wait()


def _check_that_all_run(folder: Path, jobs: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, job in jobs.items():
        if job.poll() is not None:
            last = (folder / f"{name}.log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{name} ended early with {job.returncode}:\n{last}")


def _wait_until_it_answers(folder: Path, jobs: dict[str, subprocess.Popen[bytes]]) -> None:
    until = monotonic() + _PATIENCE_SECONDS
    while not (folder / "port").exists():
        _check_that_all_run(folder, jobs)
        if monotonic() > until:
            raise RuntimeError("the server did not come up in time")
        sleep(0.2)
    asyncio.run(closed(int((folder / "port").read_text()), 16))


def _wait_until_measured(folder: Path, paths: RuntimePaths, jobs: dict[str, subprocess.Popen[bytes]]) -> None:
    until = monotonic() + _PATIENCE_SECONDS
    while monotonic() < until:
        _check_that_all_run(folder, jobs)
        if "server" in jobs and (folder / "port").exists():
            asyncio.run(closed(int((folder / "port").read_text()), 4))
        status = ask(paths, StatusRequest())
        assert isinstance(status, Status)
        if sum(job.solo_seconds > 0 and job.iterations_done > 0 for job in status.jobs) == len(jobs):
            return
        sleep(0.2)
    raise RuntimeError("the jobs were not measured in time")


def unanswered(rounds: Sequence[Round]) -> int:
    """Requests that were lost."""
    return sum(each == inf for one in rounds for each in one.latencies)
