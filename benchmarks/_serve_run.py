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
from math import inf, isnan
from pathlib import Path
from time import monotonic, monotonic_ns, sleep

from benchmarks._serve_load import Tail, closed, offer

from neaptide.core.traces.trace_format import decode
from neaptide.devices import default_kind
from neaptide.live.protocol.asking import ask
from neaptide.live.protocol.lock import running_pid
from neaptide.live.protocol.messages import Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.live.runs.starting import start_daemon, stop_daemon

_ROOT = Path(__file__).parent.parent  # the folder of the package `benchmarks`
_BUDGET_BYTES = 8 << 30  # more than both need: what is measured is the device's time
_PATIENCE_SECONDS = 120.0
_ANSWERS_SECONDS = 20.0  # until the last answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Who shares the device, and by which rule."""

    name: str
    policy: str = "neaptide"
    serves: bool = True
    trains: bool = True
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

    latencies: tuple[float, ...]  # in seconds; infinite: not answered
    rate: float  # of the training, in iterations per second

    @property
    def tail(self) -> Tail:
        return Tail(self.latencies)

    def kept(self, slo_seconds: float) -> int:
        return sum(each <= slo_seconds for each in self.latencies)


class Group:
    """The processes of one setting."""

    def __init__(self, folder: Path, paths: RuntimePaths, jobs: dict[str, subprocess.Popen[bytes]]) -> None:
        self._folder, self._paths, self._jobs = folder, paths, jobs
        pid = running_pid(paths)
        assert pid is not None
        self._daemon = pid

    @property
    def port(self) -> int:
        return int((self._folder / "port").read_text())

    @property
    def longest_kernel_seconds(self) -> float:
        """Of the training job, as the daemon knows it."""
        trace = decode((self._paths.folder / "traces" / "training.trace").read_bytes())
        return float(trace.ops.seconds.max())

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
        latencies = tuple(took for due, took in seen if isnan(due) or warm_seconds <= due < warm_seconds + seconds)
        return Round(latencies, self._rate(began_ns, began_ns + round(1e9 * seconds)))

    def _rate(self, began_ns: int, ended_ns: int) -> float:
        """Iterations per second, from the first end in this time to the first one after it."""
        file = self._folder / "training.times"
        ends_ns = [int(each) for each in file.read_text().split()] if file.exists() else []
        inside = [each for each in ends_ns if began_ns <= each <= ended_ns]
        if len(inside) < 2:
            return len(inside) / (ended_ns - began_ns) * 1e9
        return (len(inside) - 1) / (inside[-1] - inside[0]) * 1e9

    def halt(self) -> None:
        for pid in (self._daemon, *(job.pid for job in self._jobs.values())):
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        for job in self._jobs.values():
            job.send_signal(signal.SIGCONT)
        sleep(0.1)  # so that the daemon finds no stopped job
        os.kill(self._daemon, signal.SIGCONT)
        sleep(0.2)


@contextmanager
def group(setting: Setting, sizes: Sizes, slo_seconds: float | None) -> Iterator[Group]:
    """Start a group, wait until its jobs are measured, and stop it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="npt-")))
        paths = RuntimePaths(folder / "run")
        board = default_kind().board_settings_type(sms=sizes.sms)  # type: ignore[call-arg]
        start_daemon(paths, setting.policy, _BUDGET_BYTES, board)
        stack.callback(stop_daemon, paths)
        (folder / "start").touch()
        jobs = dict[str, subprocess.Popen[bytes]]()
        stack.callback(_end, jobs)
        if setting.serves:
            jobs["server"] = _server(setting, sizes, slo_seconds, folder, paths)
        if setting.trains:
            jobs["training"] = _training(sizes, folder, paths)
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
    return _start(job, folder, paths)


def _training(sizes: Sizes, folder: Path, paths: RuntimePaths) -> subprocess.Popen[bytes]:
    words = ("GPT-2", str(sizes.training_batch), "no", str(folder), "training", "no")
    command = JobCommand(name="training", command=(sys.executable, "-m", "benchmarks._live_job", *words))
    return _start(command, folder, paths)


def _start(job: JobCommand, folder: Path, paths: RuntimePaths) -> subprocess.Popen[bytes]:
    settings = default_kind().settings_type(cuda_as_soft=False)  # type: ignore[call-arg]
    with (folder / f"{job.name}.log").open("wb") as output:
        return subprocess.Popen(
            job.command, cwd=_ROOT, env=environment_of(job, settings, paths), stdout=output, stderr=subprocess.STDOUT
        )


def _end(jobs: dict[str, subprocess.Popen[bytes]]) -> None:
    for job in jobs.values():
        job.kill()
        job.wait()


def _wait_until_measured(folder: Path, paths: RuntimePaths, jobs: dict[str, subprocess.Popen[bytes]]) -> None:
    until = monotonic() + _PATIENCE_SECONDS
    while monotonic() < until:
        for name, job in jobs.items():
            if job.poll() is not None:
                last = (folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended early with {job.returncode}:\n{last}")
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
