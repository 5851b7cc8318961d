"""A daemon that shares the hollow GPU, and jobs for it that know nothing of neaptide."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hollow.board import Board as HollowBoard
from hollow.sharing.running import Hollow
from neaptide.devices import Board, DeviceName
from neaptide.live.protocol.asking import NoDaemonError, ask
from neaptide.live.protocol.job_settings import JobSettings
from neaptide.live.protocol.messages import Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths

MIB = 1 << 20
SECONDS = 300  # a wait that takes longer hangs
_PROGRAM = Path(__file__).parent / "programs" / "steady.py"


def until(true: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Wait until a condition holds that another process brings about."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(0.01)


class Job:
    """A training that goes on until it is ended or killed."""

    def __init__(self, daemon: CudaDaemon, name: str, what: str, width: int, batch: int) -> None:
        self.name = name
        environment = JobSettings(name=name).environment(
            daemon.paths.socket, DeviceName("cuda"), daemon.hollow.environment
        )
        # Files, because a pipe that nobody reads would hold the job up.
        self._out, self._log = (daemon.hollow.folder / f"{name}.{end}" for end in ("out", "log"))
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(_PROGRAM), what, str(width), str(batch)],
                env=environment | {"NEAPTIDE_CUDA_BOARD": str(daemon.paths.board)},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
            )

    @property
    def said(self) -> list[str]:
        """The whole lines that it has printed."""
        return [line for line in self._out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def has_said(self, lines: int) -> None:
        """Wait until it has printed so many lines."""
        until(lambda: len(self.said) >= lines or self.process.poll() is not None, f"{self.name} to go on")
        assert self.process.poll() is None, f"{self.name} ended: {self._log.read_text()[-2000:]}"

    def goes_on(self, steps: int = 2) -> None:
        """Wait until it has done more steps."""
        self.has_said(len(self.said) + steps)

    def bear(self) -> int:
        """Have a nursery start a child; its process."""
        before = len(self.said)
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.has_said(before + 1)
        return int(self.said[before])

    def end(self) -> dict[str, Any]:
        """Have it end by itself; what it tells at its end. It must end well."""
        self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 0, self._log.read_text()[-2000:]
        facts: dict[str, Any] = json.loads(self.said[-1])
        return facts

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class CudaDaemon:
    """`neaptide up` on the hollow GPU of a folder; the GPU's own count is `device`."""

    def __init__(self, hollow: Hollow, budget_bytes: int, policy: str = "neaptide") -> None:
        self.hollow, self.budget_bytes, self.policy = hollow, budget_bytes, policy
        self.paths = RuntimePaths(hollow.folder / "run")
        self.jobs: list[Job] = []
        self.log = hollow.folder / "daemon.log"
        self.start()
        self.board = Board.open(self.paths.board)
        self.device = HollowBoard(hollow.folder / "device")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self.jobs:
            if job.process.poll() is None:
                job.kill()
        self.kill()
        self.board.close()
        self.device.close()

    def start(self) -> None:
        """Start the daemon, also after it was killed."""
        words = f"up --foreground --budget {self.budget_bytes} --policy {self.policy}"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "neaptide.cli", *words.split()],
                env=self.hollow.environment,
                stdout=log,
                stderr=log,
            )
        until(self._answers, "the daemon to answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def status(self) -> Status:
        answer = ask(self.paths, StatusRequest())
        assert isinstance(answer, Status)
        return answer

    def begin(self, name: str, what: str = "train", width: int = 512, batch: int = 4096) -> Job:
        """Start a job: by default one with some 14 MiB of parameters and a tide of some 100 MiB."""
        job = Job(self, name, what, width, batch)
        self.jobs.append(job)
        return job

    def end_jobs(self) -> list[dict[str, Any]]:
        """Have all jobs end by themselves."""
        facts = [job.end() for job in self.jobs]
        self.jobs.clear()
        return facts

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"the daemon ended: {self.log.read_text()[-2000:]}"
        try:
            return self.status().pid == self.process.pid
        except NoDaemonError:
            return False
