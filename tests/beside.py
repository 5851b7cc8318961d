"""A daemon with a neighbour that trains, and programs beside it, under a budget too small for both at their peaks."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from corpus import HERE, Program, Ran, environment, plain, run
from hangs import HANGS_SECONDS
from neaptide.core.units import parse_bytes
from neaptide.live.protocol.asking import NoDaemonError, ask
from neaptide.live.protocol.messages import SetBudget, Shutdown, Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.attendance import NOT_SHARED

MIB = 1 << 20
NEIGHBOUR = (sys.executable, str(HERE / "neighbour.py"))
CHECKED_STEPS = 300  # of the neighbour, against the same alone
START_SECONDS = HANGS_SECONDS


@dataclass(frozen=True)
class Outcome:
    """What became of a program beside the neighbour."""

    program: Program
    ran: Ran
    jobs: int
    complaints: tuple[str, ...]  # lines of neaptide on its stderr
    wrong: tuple[str, ...]  # what is not as it should be
    neighbour_steps: int
    longest_pause_seconds: float  # the longest time that the neighbour's step took meanwhile


class Beside:
    """A daemon of its own, and a neighbour that trains."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="beside-")
        self.paths = RuntimePaths(Path(self._folder.name) / "run")
        self._env = environment(NEAPTIDE_RUNTIME=str(self.paths.folder))
        _, self._neighbour_peak = plain((*NEIGHBOUR, "12"))
        self._log = Path(self._folder.name) / "neighbour.log"
        self.budget_bytes = 2 * self._neighbour_peak
        self._neaptide("up", "--budget", str(self.budget_bytes))
        with self._log.open("w") as out:
            self._neighbour = subprocess.Popen(
                self._job("neighbour", NEIGHBOUR), env=self._env, stdin=subprocess.DEVNULL, stdout=out
            )
        end = time.monotonic() + START_SECONDS
        while self.steps() <= 10:
            if time.monotonic() > end or self._neighbour.poll() is not None:
                raise TimeoutError(f"the neighbour does not train: {self.status()}")
            time.sleep(0.05)

    def _neaptide(self, *words: str) -> None:
        subprocess.run([sys.executable, "-m", "neaptide.cli", *words], env=self._env, check=True, timeout=START_SECONDS)

    def _job(self, name: str, words: tuple[str, ...] | list[str]) -> list[str]:
        return [sys.executable, "-m", "neaptide.cli", "run", "--name", name, "--sms", "1", "--", *words]

    def status(self) -> Status:
        answer = ask(self.paths, StatusRequest())
        assert isinstance(answer, Status)
        return answer

    def steps(self) -> int:
        """How many steps the neighbour has done."""
        return self._log.read_bytes().count(b"\n")

    def _set_budget(self, program: Program, peak_bytes: int) -> None:
        """Room for the larger of the two and a third of the smaller: not for both at their peaks."""
        small, large = sorted((peak_bytes, self._neighbour_peak))
        self.budget_bytes = parse_bytes(program.budget) if program.budget else large + small // 3 + 4 * MIB
        ask(self.paths, SetBudget(self.budget_bytes))

    def run(self, program: Program) -> Outcome:
        """Run a program beside the neighbour, and compare it with itself alone."""
        alone, peak_bytes = plain(tuple(program.words))
        self._set_budget(program, peak_bytes)
        words = program.words if program.by_itself else self._job(program.name, program.words)
        with _Watching(self) as watching:
            ran = run(words, self._env)
        complaints = tuple(line for line in ran.errors.splitlines() if line.startswith("neaptide:"))
        wrong = [*_compared(program, alone, ran, watching.jobs), *watching.wrong]
        if self._neighbour.poll() is not None:
            wrong.append(f"the neighbour ended with {self._neighbour.returncode}")
        elif not watching.steps:
            wrong.append("the neighbour made no step")
        return Outcome(program, ran, watching.jobs, complaints, tuple(wrong), watching.steps, watching.longest_pause)

    def is_well(self) -> bool:
        """Whether the daemon answers, the neighbour is its only job, and goes on."""
        begun, end = self.steps(), time.monotonic() + START_SECONDS
        while self._neighbour.poll() is None and time.monotonic() < end:
            if self.steps() > begun:
                with suppress(NoDaemonError):
                    return sum(not job.state.ended for job in self.status().jobs) == 1
                return False
            time.sleep(0.05)
        return False

    def neighbour_is_unchanged(self) -> bool:
        """Whether the neighbour's first losses are those that it has alone."""
        losses = self._log.read_text().splitlines()[:-1][:CHECKED_STEPS]
        alone, _ = plain((*NEIGHBOUR, str(CHECKED_STEPS)))
        return losses == alone.losses()[: len(losses)]

    def end_neighbour(self) -> None:
        self._neighbour.terminate()
        self._neighbour.wait(30)

    def close(self) -> None:
        self.end_neighbour()
        with suppress(NoDaemonError):
            ask(self.paths, Shutdown())
        self._folder.cleanup()


class _Watching:
    """Looks at the daemon's jobs and the neighbour's steps while a program runs."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._most = 0
        self._over: Status | None = None
        self._silent = 0
        self.longest_pause = 0.0

    def __enter__(self) -> Self:
        self._before = _others(self._beside.status())
        self._from = self._beside.steps()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.steps = self._beside.steps() - self._from
        self._stop.set()
        self._thread.join()
        end = time.monotonic() + 10  # the end of a process is known a little later
        while self._look() > 1 and time.monotonic() < end:
            time.sleep(0.05)

    def _watch(self) -> None:
        last, since = self._from, time.monotonic()
        while not self._stop.wait(0.1):
            self._look()
            steps, now = self._beside.steps(), time.monotonic()
            if steps != last:
                last, since = steps, now
            self.longest_pause = max(self.longest_pause, now - since)

    def _look(self) -> int:
        """Look at the daemon once; how many jobs have not ended."""
        try:
            status = self._beside.status()
        except NoDaemonError:
            self._silent += 1
            return 0
        self._most = max(self._most, _others(status))
        if status.used_bytes > status.budget_bytes:
            self._over = status
        self.problem = status.problem
        return sum(not job.state.ended for job in status.jobs)

    @property
    def jobs(self) -> int:
        """How many jobs there were beside the neighbour."""
        return self._most - self._before

    @property
    def wrong(self) -> list[str]:
        """What the daemon did that it should not."""
        found = [f"the daemon says: {self.problem}"] if self.problem else []
        if self._silent:
            found.append(f"the daemon did not answer {self._silent} times")
        if self._over:
            found.append(f"{self._over.used_bytes} bytes were held under a budget of {self._over.budget_bytes}")
        return found


def _others(status: Status) -> int:
    return sum(job.name != "neighbour" for job in status.jobs)


def _compared(program: Program, alone: Ran, ran: Ran, jobs: int) -> list[str]:
    """How a program beside the neighbour differs from itself alone."""
    wrong = []
    if alone.code != program.exit:
        wrong.append(f"alone it ended with {alone.code}: {_last_line(alone.errors)}")
    if ran.code is None:
        wrong.append("it hung")
    elif ran.code != (expected := program.exit or (0 if program.jobs else NOT_SHARED)):
        wrong.append(f"it ended with {ran.code}, not {expected}: {_last_line(ran.errors)}")
    if ran.losses(program.threads) != alone.losses(program.threads):
        wrong.append(f"its losses differ ({len(ran.losses())} lines, alone {len(alone.losses())})")
    if jobs < program.jobs:
        wrong.append(f"{jobs} of its processes were jobs, not {program.jobs}")
    if program.refused and not re.search(program.refused, ran.errors):
        wrong.append(f"it was not told {program.refused!r}")
    return wrong


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("neaptide:")]
    return lines[-1][:160] if lines else ""
