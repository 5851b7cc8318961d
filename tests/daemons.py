"""A daemon in a process of its own, for tests, and jobs for it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from fake_job import FakeJob, FakeJobSpec
from hangs import HANGS_SECONDS as SECONDS
from neaptide.core.control.policy import Policy
from neaptide.devices import Board, DeviceKind, Region
from neaptide.live.daemon.server import Server, listening
from neaptide.live.protocol.asking import NoDaemonError, ask
from neaptide.live.protocol.messages import JobStatus, Shutdown, Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths, prepare
from neaptide.policies.files import find_policy

MIB = 1 << 20


def until(true: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait until a condition holds that another process or thread brings about."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(0.005)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for its end."""
    process.kill()
    process.wait(SECONDS)
    if process.stdout is not None:
        process.stdout.close()


def until_it_ran(process: subprocess.Popen[str], iterations: int) -> None:
    """Wait until a job of `spawn` has done this iteration."""
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= iterations:
            return
    raise AssertionError("the job ended early")


def goes_on(job: FakeJob, iterations: int = 5) -> None:
    """Wait until the job has done this many more iterations."""
    before = job.done
    until(lambda: job.done >= before + iterations, f"{job.spec.name} to go on after {before}")


class _Jobs:
    """Starts jobs of a daemon and asks for their status."""

    paths: RuntimePaths
    board: Board

    def __init__(
        self,
        folder: Path,
        policy: str | Policy = "neaptide",
        budget: int = 100 * MIB,
        kind: DeviceKind | None = None,
    ) -> None:
        self.paths = RuntimePaths(folder)
        self.policy, self.budget, self.kind = policy, budget, kind
        self.processes: list[subprocess.Popen[str]] = []
        self.jobs: list[FakeJob] = []
        self.start()

    def start(self) -> None:
        raise NotImplementedError

    def status(self) -> Status:
        answer = ask(self.paths, StatusRequest())
        assert isinstance(answer, Status)
        return answer

    def job(self, name: str) -> JobStatus:
        """The status of the newest job of this name."""
        return [job for job in self.status().jobs if job.name == name][-1]

    def has(self, name: str, state: str) -> bool:
        return any(job.name == name and job.state == state for job in self.status().jobs)

    def run(self, **spec: object) -> FakeJob:
        """A job on a thread of this process."""
        job = FakeJob(self.paths.socket, self.paths.board, msgspec.convert(spec, FakeJobSpec)).start()
        self.jobs.append(job)
        return job

    def spawn(self, **spec: object) -> subprocess.Popen[str]:
        """A job in a process of its own."""
        text = msgspec.json.encode(msgspec.convert(spec, FakeJobSpec)).decode()
        here = Path(__file__).parent
        process = subprocess.Popen(
            [sys.executable, str(here / "fake_job.py"), str(self.paths.socket), str(self.paths.board), text],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def end_jobs(self) -> None:
        for job in self.jobs:
            job.stop.set()
            job.go_on.set()
        for job in self.jobs:
            job.join()
        for process in self.processes:
            kill(process)


class DaemonProcess(_Jobs):
    """`neaptide up --foreground` in its own runtime directory."""

    def start(self) -> None:
        words = f"up --foreground --sms 2 --budget {self.budget} --policy {self.policy}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "neaptide.cli", *words.split()],
            env={**os.environ, "NEAPTIDE_RUNTIME": str(self.paths.folder)},
            stderr=subprocess.PIPE,
            text=True,
        )
        until(self.answers, "the daemon to answer")

    def answers(self) -> bool:
        assert self.process.poll() is None, f"the daemon ended: {self.process.stderr and self.process.stderr.read()}"
        try:
            return self.status().pid == self.process.pid
        except NoDaemonError:
            return False

    def stop(self) -> str:
        """End the jobs and the daemon; returns what the daemon printed to stderr."""
        self.end_jobs()
        if self.process.poll() is None:
            try:
                ask(self.paths, Shutdown())
            except NoDaemonError:
                self.process.kill()
        return self.process.communicate(timeout=SECONDS)[1]


class DaemonThread(_Jobs):
    """A daemon on a thread of this process: it starts faster than a process."""

    def start(self) -> None:
        prepare(self.paths)
        self.board = Board.create(self.paths.board, self.budget, Region("soft", 2))
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._up.wait(SECONDS)

    async def _serve(self) -> None:
        policy = find_policy(self.policy) if isinstance(self.policy, str) else self.policy
        async with listening(self.paths, self.board, policy, self.budget, self.kind) as server:
            self.server: Server = server
            self._up.set()
            await server.stopped

    def stop(self) -> None:
        """End the jobs and the daemon."""
        self.end_jobs()
        ask(self.paths, Shutdown())
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
