"""Real training and serving jobs under a daemon, and what the same jobs print when they are alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from daemons import DaemonThread, until
from hangs import HANGS_SECONDS as SECONDS
from neaptide.devices import default_kind
from neaptide.live.runs.launching import JobCommand, environment_of
from real_job import PAUSE

PROGRAM = Path(__file__).parent / "real_job.py"
ONE_SM = default_kind().settings_type(sms=1)
BINDS = 0.65  # budget as a share of the bytes that the jobs would hold side by side: too little for all peaks at once


@dataclass(frozen=True, slots=True)
class Alone:
    """What a job prints at its end when it has the device to itself."""

    digest: str
    peak_bytes: int


@cache
def alone(arguments: tuple[str, ...]) -> Alone:
    environment = {**os.environ, "NEAPTIDE_SOFT_SMS": "1", "NEAPTIDE_SOFT_CAPACITY": "1GiB"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, str(PROGRAM), *arguments]
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    digest, peak = done.stdout.split()[-2:]
    return Alone(digest, int(peak))


def budget_for(*jobs: tuple[str, ...]) -> int:
    return int(BINDS * sum(alone(job).peak_bytes for job in jobs))


class RealDaemon(DaemonThread):
    """A daemon whose jobs are real programs."""

    def begin(
        self, name: str, arguments: tuple[str, ...], pauses: bool = False, priority: int = 0
    ) -> subprocess.Popen[str]:
        """Start a job. If it pauses, it waits for `go_on` once it was measured."""
        command = (sys.executable, str(PROGRAM), *arguments)
        inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        job = JobCommand(name=name, command=command, priority=priority)
        environment = environment_of(job, ONE_SM, self.paths, inherited)
        told = subprocess.PIPE if pauses else subprocess.DEVNULL
        process = subprocess.Popen(command, env=environment, stdin=told, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def program(self, name: str, code: str, **more: str) -> subprocess.Popen[str]:
        """Start a job that is a program with this text."""
        command = (sys.executable, "-c", code)
        inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment = environment_of(JobCommand(name=name, command=command), ONE_SM, self.paths, inherited)
        process = subprocess.Popen(command, env={**environment, **more}, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def ends_as_alone(self, process: subprocess.Popen[str], arguments: tuple[str, ...]) -> None:
        try:
            out, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{arguments} hangs: {self.status()}\n{self.board.snapshot()}") from None
        assert process.returncode == 0
        assert out.split()[-2] == alone(arguments).digest

    def state_of(self, process: subprocess.Popen[str]) -> str:
        """The state letter of a process in /proc; T when it is stopped."""
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def check_memory(self) -> None:
        """Check that all memory is given back and that the budget was kept."""
        until(lambda: self.status().used_bytes == 0, "all memory to be back")
        assert self.board.snapshot().high_water_bytes <= self.budget


def until_step(process: subprocess.Popen[str], step: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.split()[0] == str(step):
            return
    raise AssertionError("it ended early")


def until_it_pauses(process: subprocess.Popen[str]) -> None:
    until_step(process, PAUSE - 1)


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None


StartDaemon = Callable[[str, int], RealDaemon]
