"""One run: jobs under a daemon from the start of the first to the end of the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep

from neaptide.devices import default_kind
from neaptide.devices.board import Board
from neaptide.devices.interface import DeviceSettings
from neaptide.live.protocol.asking import NoDaemonError, ask, watch
from neaptide.live.protocol.messages import Status, StatusRequest
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.live.runs.supervisor import JobResult, Supervisor

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


class _Listener:
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
) -> RunRecord:
    """Run jobs under the daemon in `paths` until all have ended; KeyboardInterrupt asks them to end."""
    board = Board.open(paths.board)
    board.reset_high_water()
    began = _status(paths)
    listener, supervisor = _Listener(paths), Supervisor(folder)
    try:
        supervisor.start(jobs, lambda job: environment_of(job, device, paths))
        _attend(supervisor, listener, on_status, on_end)
    finally:
        supervisor.kill()
        seen = board.snapshot()
        board.close()
    status = _status(paths) or listener.latest or began
    return RunRecord(
        policy="" if status is None else status.policy,
        device=default_kind().name,
        budget_bytes=seen.capacity_bytes if status is None else status.budget_bytes,
        began_ns=0 if began is None else round(began.uptime_seconds * 1e9),
        results=tuple(sorted(supervisor.results, key=lambda result: [job.name for job in jobs].index(result.name))),
        high_water_bytes=seen.high_water_bytes,
        interrupted=supervisor.ending,
    )


def _status(paths: RuntimePaths) -> Status | None:
    """The daemon's status, and its log written up to now; None when it is gone."""
    try:
        answer = ask(paths, StatusRequest())
    except NoDaemonError:
        return None
    assert isinstance(answer, Status)
    return answer


def _attend(supervisor: Supervisor, listener: _Listener, on_status: OnStatus, on_end: OnEnd) -> None:
    show_at = 0.0
    while supervisor.running:
        try:
            for result in supervisor.poll():
                on_end(result)
            status = listener.latest
            if status is not None and monotonic() >= show_at:
                show_at = monotonic() + _SHOW_SECONDS
                on_status(status, supervisor.running)
            sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            supervisor.end()
    if listener.latest is not None:
        on_status(listener.latest, ())
