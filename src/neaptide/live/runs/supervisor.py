"""Runs jobs as processes of their own: starts them, keeps what they print, and ends them all when asked.

A job has its own process group, so that Ctrl-C in the terminal reaches this process alone, which passes it on: first
SIGINT, which Python turns into KeyboardInterrupt, then SIGTERM, then SIGKILL. A job's keeper ends it when this process
is gone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from neaptide.live.runs.keeping import KeptProcess
from neaptide.live.runs.launching import JobCommand

_LAST_BYTES = 1 << 16
_LAST_LINES, _LONGEST_LINE = 10, 400
_OURS = "neaptide: "  # how a line begins that is not the program's
_STEPS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job's process ended."""

    name: str
    code: int  # its exit code, or the negative number of the signal that ended it
    seconds: float  # from its start to its end, its own start-up included
    output: str  # the name of the file with all that it printed
    last_lines: tuple[str, ...] = ()
    asked_to_end: bool = False  # because the run was interrupted
    began_seconds: float = 0.0  # its start, from the start of the run
    last_line: str = ""  # that the program itself printed

    @property
    def failed(self) -> bool:
        return self.code != 0 and not self.asked_to_end

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.code >= 0:
            return f"exit code {self.code}"
        with suppress(ValueError):
            return signal.Signals(-self.code).name
        return f"signal {-self.code}"


@dataclass(slots=True)
class _Running:
    job: JobCommand
    process: KeptProcess
    since: float
    output: Path


class Supervisor:
    """The processes of one run. Each of SIGINT and SIGTERM has `seconds_to_end` to take effect."""

    def __init__(self, folder: Path, seconds_to_end: float = 5.0, last_lines: int = _LAST_LINES) -> None:
        self._folder = folder
        self._seconds_to_end = seconds_to_end
        self._last_lines = last_lines
        self._origin = monotonic()
        self._running: list[_Running] = []
        self._step: int | None = None  # index of the signal that was sent last
        self._step_until = 0.0
        self.results: list[JobResult] = []

    @property
    def running(self) -> list[str]:
        return [each.job.name for each in self._running]

    @property
    def ending(self) -> bool:
        return self._step is not None

    def start(self, jobs: Sequence[JobCommand], environment: Callable[[JobCommand], Mapping[str, str]]) -> None:
        """Start every job; if one cannot start, end the others and raise ValueError."""
        for job in jobs:
            output = self._folder / f"{job.name}.log"
            try:
                output.write_bytes(b"")
                with output.open("ab") as file:  # `note` adds to it
                    process = KeptProcess(job.command, environment(job), job.directory, file)
            except OSError as error:
                self.kill()
                raise ValueError(f"job {job.name}: cannot run {job.command[0]}: {error.strerror}") from None
            self._running.append(_Running(job, process, monotonic(), output))

    def note(self, job: str, line: str) -> None:
        """Add a line of neaptide's own to what a job printed, if that is possible."""
        with suppress(OSError), (self._folder / f"{job}.log").open("ab") as file:
            file.write(f"{_OURS}{line}\n".encode())

    def poll(self) -> list[JobResult]:
        """The jobs that have ended since the last call. Also sends the next signal, when it is due."""
        if self._step is not None and self._running and monotonic() >= self._step_until:
            self._signal_all(min(self._step + 1, len(_STEPS) - 1))
        ended = [each for each in self._running if each.process.poll() is not None]
        self._running = [each for each in self._running if each not in ended]
        found = [self._result(each) for each in ended]
        self.results += found
        return found

    def end(self) -> None:
        """Ask all jobs to end; each further call sends the next stronger signal."""
        self._signal_all(0 if self._step is None else min(self._step + 1, len(_STEPS) - 1))

    def kill(self) -> None:
        """End all jobs at once, if there are any, and wait for them."""
        if not self._running:
            return
        self._signal_all(len(_STEPS) - 1)
        for each in self._running:
            each.process.wait()
        self.poll()

    def _signal_all(self, step: int) -> None:
        self._step, self._step_until = step, monotonic() + self._seconds_to_end
        for each in self._running:
            each.process.signal(_STEPS[step])

    def _result(self, ended: _Running) -> JobResult:
        code = ended.process.poll() or 0
        own = [line for line in last_lines_of(ended.output, _LAST_LINES) if not line.startswith(_OURS)]
        return JobResult(
            name=ended.job.name,
            code=code,
            seconds=monotonic() - ended.since,
            output=ended.output.name,
            last_lines=last_lines_of(ended.output, self._last_lines) if code else (),
            asked_to_end=self.ending,
            began_seconds=ended.since - self._origin,
            last_line=own[-1][:_LONGEST_LINE] if own else "",
        )


def last_lines_of(path: Path, count: int) -> tuple[str, ...]:
    """The last lines that a job printed; of a line that a progress bar overwrote, the last version."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    lines = [line.rstrip().rsplit("\r", 1)[-1] for line in text.split("\n")]
    return tuple([line for line in lines if line.strip()][-count:])
