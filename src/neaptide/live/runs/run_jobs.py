"""One run: jobs under a daemon from the start of the first to the end of the last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from signal import Signals
from threading import Lock, Thread
from time import monotonic, sleep

from neaptide.core.control.log_format import Header
from neaptide.devices import chosen_device, default_kind
from neaptide.devices.board import Board
from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.asking import NoDaemonError, watch
from neaptide.live.protocol.messages import Status
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.attendance import some_job_came, status_now
from neaptide.live.runs.interrupts import noted_interrupts
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.live.runs.supervisor import JobResult, Supervisor
from neaptide.live.runs.unseen import telling_of_unseen

_POLL_SECONDS = 0.05
_SHOW_SECONDS = 0.25

OnStatus = Callable[[Status, Sequence[str]], None]  # the daemon's status, and the jobs whose processes run
OnEnd = Callable[[JobResult], None]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The outcome of a run; the daemon's log has the rest."""

    policy: str
    device: str
    budget_bytes: int
    began_ns: int  # when the jobs were started, on the clock of the daemon's log
    results: tuple[JobResult, ...]
    high_water_bytes: int
    interrupted: bool
    shared: bool = True  # a process of it became a job; also if the daemon is gone, so that nobody can tell
    seconds: float = 0.0  # from the start of the run to the end of its last job, start-up and measuring included
    began_at: str = ""  # the date and time
    hardware: str = ""  # the device in words

    @property
    def header(self) -> Header:
        """The first line of a log of this run that no daemon writes."""
        return Header(
            scenario="live",
            policy=self.policy,
            seed=0,
            device=self.device,
            budget_bytes=self.budget_bytes,
            end_ns=0,
            jobs=(),
        )


class _StatusReader:
    """Keeps the daemon's latest status, in a thread of its own."""

    def __init__(self, paths: RuntimePaths) -> None:
        self._paths = paths
        self._lock = Lock()
        self._latest: Status | None = None
        self._thread = Thread(target=self._listen, daemon=True, name="neaptide-status")
        self._thread.start()

    @property
    def latest(self) -> Status | None:
        with self._lock:
            return self._latest

    def _listen(self) -> None:
        try:
            for status in watch(self._paths):
                with self._lock:
                    self._latest = status
        except NoDaemonError:
            pass  # the jobs go on under the board's limits


def run_jobs(
    jobs: Sequence[JobCommand],
    device: DeviceSettings,
    paths: RuntimePaths,
    folder: Path,
    on_status: OnStatus,
    on_end: OnEnd,
    asked: float | None = None,
) -> RunRecord:
    """Run jobs under the daemon in `paths` until all have ended; SIGINT, SIGTERM and SIGHUP ask them to end.

    `asked` is when the user asked for the run, on the steady clock; the time that the daemon took to start counts, too.
    """
    asked, began_at = monotonic() if asked is None else asked, now_in_words()
    board = Board.open(paths.board)
    board.reset_high_water()
    began = status_now(paths)
    reader, supervisor = _StatusReader(paths), Supervisor(folder)
    try:
        with noted_interrupts() as interrupts:
            supervisor.start(jobs, lambda job: environment_of(job, device, paths))
            with telling_of_unseen(paths.socket, [job.name for job in jobs], supervisor.note):
                _attend(supervisor, reader, interrupts, on_status, on_end)
        ended_at = monotonic()
    finally:
        supervisor.kill()
        seen = board.snapshot()
        board.close()
    ended = status_now(paths)
    status = ended or reader.latest or began
    return RunRecord(
        policy="" if status is None else status.policy,
        device=default_kind().name,
        budget_bytes=seen.capacity_bytes if status is None else status.budget_bytes,
        began_ns=0 if began is None else round(began.uptime_seconds * 1e9),
        results=results_in_order(supervisor.results, jobs),
        high_water_bytes=seen.high_water_bytes,
        interrupted=supervisor.ending,
        shared=some_job_came(began, ended),
        seconds=ended_at - asked,
        began_at=began_at,
        hardware=default_kind().description(chosen_device().index),
    )


def now_in_words() -> str:
    """The date and time of this place, to the minute."""
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


def results_in_order(results: Sequence[JobResult], jobs: Sequence[JobCommand]) -> tuple[JobResult, ...]:
    """The results in the order of the jobs."""
    names = [job.name for job in jobs]
    return tuple(sorted(results, key=lambda result: names.index(result.name)))


def look_after(supervisor: Supervisor, interrupts: deque[Signals], on_end: OnEnd) -> None:
    """Ask the jobs to end, once for each interrupt that has come, and report the jobs that have ended."""
    for _ in range(len(interrupts)):
        interrupts.popleft()
        supervisor.end()
    for result in supervisor.poll():
        on_end(result)


def _attend(
    supervisor: Supervisor,
    reader: _StatusReader,
    interrupts: deque[Signals],
    on_status: OnStatus,
    on_end: OnEnd,
) -> None:
    show_at = 0.0
    while supervisor.running:
        look_after(supervisor, interrupts, on_end)
        status = reader.latest
        if status is not None and monotonic() >= show_at:
            show_at = monotonic() + _SHOW_SECONDS
            on_status(status, supervisor.running)
        sleep(_POLL_SECONDS)
    if reader.latest is not None:
        on_status(reader.latest, ())
