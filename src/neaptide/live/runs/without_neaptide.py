"""Jobs without neaptide, for comparison: one after the other, each with device and budget to itself, or at once.

No daemon runs, nothing is measured and nothing waits for a permit. The board only bounds and counts the device's
memory, as a GPU does. What the jobs held over time is written as a log, so that reports read such a run like any other.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from time import monotonic, sleep

from neaptide.core.control.job import DisplayState, JobKind
from neaptide.core.control.log_format import HeldMemory, encode_line
from neaptide.devices import chosen_device, default_kind
from neaptide.devices.board import Board
from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.messages import JobStatus, Status
from neaptide.live.protocol.paths import RuntimePaths, prepare, temporary_paths
from neaptide.live.runs.interrupts import noted_interrupts
from neaptide.live.runs.launching import JobCommand, environment_without_daemon
from neaptide.live.runs.run_jobs import OnEnd, OnStatus, RunRecord, look_after, now_in_words, results_in_order
from neaptide.live.runs.supervisor import JobResult, Supervisor

_LOOK_SECONDS = 0.02
_SHOW_SECONDS = 0.25
_CANNOT_RUN = 127  # the exit code that a shell gives


class Without(Enum):
    """How jobs run without neaptide. The value stands for the policy in tables and reports."""

    ONE_AFTER_THE_OTHER = "one after the other"
    AT_ONCE = "all at once"

    @classmethod
    def of(cls, word: str) -> Without:
        """The way that has this name on the command line."""
        return cls[word.upper().replace("-", "_")]


@contextmanager
def device_without_daemon(budget_bytes: int | None) -> Iterator[tuple[RuntimePaths, Board]]:
    """A board of this run's own with this capacity; `paths` has no daemon."""
    kind, paths = default_kind(), temporary_paths()
    try:
        prepare(paths)
        capacity_bytes = budget_bytes or kind.default_budget_bytes(chosen_device().index)
        board = kind.create_board(paths.board, capacity_bytes, kind.board_settings_type())
        try:
            yield paths, board
        finally:
            board.close()
    finally:
        shutil.rmtree(paths.folder, ignore_errors=True)


def run_without(
    how: Without,
    jobs: Sequence[JobCommand],
    device: DeviceSettings,
    paths: RuntimePaths,
    board: Board,
    folder: Path,
    on_status: OnStatus,
    on_end: OnEnd,
) -> RunRecord:
    """Run the jobs until all have ended, and write the log. SIGINT, SIGTERM and SIGHUP end the run."""
    began_at, watcher = now_in_words(), _Watcher(how, board, on_status)
    supervisor = Supervisor(folder)
    groups = [[job] for job in jobs] if how is Without.ONE_AFTER_THE_OTHER else [list(jobs)]
    try:
        with noted_interrupts() as interrupts:
            for group in groups:
                if supervisor.ending:
                    supervisor.results += [_never_started(job, watcher.seconds) for job in group]
                    continue
                for result in _start(supervisor, group, device, paths.board):
                    on_end(result)
                while supervisor.running:
                    look_after(supervisor, interrupts, on_end)
                    watcher.look(supervisor.running)
                    sleep(_LOOK_SECONDS)
        seconds = watcher.seconds
    finally:
        supervisor.kill()
    watcher.look(())
    seen = board.snapshot()
    record = RunRecord(
        policy=how.value,
        device=default_kind().name,
        budget_bytes=seen.capacity_bytes,
        began_ns=0,
        results=results_in_order(supervisor.results, jobs),
        high_water_bytes=seen.high_water_bytes,
        interrupted=supervisor.ending,
        seconds=seconds,
        began_at=began_at,
        hardware=default_kind().description(chosen_device().index),
    )
    lines = [encode_line(record.header), *map(encode_line, watcher.history)]
    paths.events.write_bytes(b"".join(line + b"\n" for line in lines))
    return record


def _start(supervisor: Supervisor, group: Sequence[JobCommand], device: DeviceSettings, board: Path) -> list[JobResult]:
    """Start jobs; the results of those that cannot be started. If nothing has run before, that raises ValueError."""
    try:
        supervisor.start(group, lambda job: environment_without_daemon(job, device, board))
    except ValueError as error:
        if not supervisor.results:
            raise
        failed = [JobResult(job.name, _CANNOT_RUN, 0.0, f"{job.name}.log", (str(error),)) for job in group]
        supervisor.results += failed
        return failed
    return []


def _never_started(job: JobCommand, seconds: float) -> JobResult:
    return JobResult(job.name, -signal.SIGINT, 0.0, f"{job.name}.log", asked_to_end=True, began_seconds=seconds)


@dataclass(slots=True)
class _Watcher:
    """Looks at the board 50 times a second, keeps what jobs held, and shows it now and then."""

    how: Without
    board: Board
    on_status: OnStatus
    began: float = field(default_factory=monotonic)
    history: list[HeldMemory] = field(default_factory=list)
    _show_at: float = 0.0

    @property
    def seconds(self) -> float:
        return monotonic() - self.began

    def look(self, running: Sequence[str]) -> None:
        seen = self.board.snapshot()
        held_bytes: dict[str, int] = {}
        for slot in seen.slots:
            held_bytes[slot.job] = held_bytes.get(slot.job, 0) + slot.held_bytes
        if not self.history or self.history[-1].held_bytes != held_bytes:
            self.history.append(HeldMemory(round(self.seconds * 1e9), held_bytes))
        if self.seconds < self._show_at:
            return
        self._show_at = self.seconds + _SHOW_SECONDS
        status = Status(
            pid=os.getpid(),
            policy=self.how.value,
            uptime_seconds=self.seconds,
            budget_bytes=seen.capacity_bytes,
            used_bytes=seen.used_bytes,
            high_water_bytes=seen.high_water_bytes,
            sms=self.board.region_setting(),
            board="",
            jobs=tuple(_status_of(name, held_bytes[name]) for name in running if name in held_bytes),
        )
        self.on_status(status, running)


def _status_of(name: str, held_bytes: int) -> JobStatus:
    return JobStatus(name=name, pid=0, kind=JobKind.TRAINING, state=DisplayState.RUNNING, held_bytes=held_bytes)
