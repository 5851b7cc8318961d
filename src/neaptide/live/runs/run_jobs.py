"""One run: jobs under a daemon from their start to the end of the last, and what was seen of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, monotonic_ns, sleep

from neaptide.devices.board import Board
from neaptide.live.protocol.asking import NoDaemonError, watch
from neaptide.live.protocol.messages import Status
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import DeviceSettings, JobCommand, environment_of
from neaptide.live.runs.memory_sampler import MemorySample, MemorySampler
from neaptide.live.runs.supervisor import JobResult, Supervisor

_POLL_SECONDS = 0.05
_SHOW_SECONDS = 0.25

OnStatus = Callable[[Status, Sequence[str]], None]  # how things stand, and the jobs whose processes run
OnEnd = Callable[[JobResult], None]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What came of a run. Times of samples are on the clock of the daemon's log."""

    policy: str
    budget_bytes: int
    began_ns: int  # when the jobs were started
    results: tuple[JobResult, ...]
    samples: tuple[MemorySample, ...]
    high_water_bytes: int
    interrupted: bool


class _Listener:
    """Keeps the daemon's latest word, in a thread of its own."""

    def __init__(self, paths: RuntimePaths) -> None:
        self._paths = paths
        self._lock = Lock()
        self._latest: Status | None = None
        self._zero_ns: int | None = None
        self._thread = Thread(target=self._listen, daemon=True, name="neaptide-status")
        self._thread.start()

    @property
    def latest(self) -> Status | None:
        with self._lock:
            return self._latest

    @property
    def zero_ns(self) -> int:
        """When the daemon's clock was at zero, on the machine's."""
        with self._lock:
            return monotonic_ns() if self._zero_ns is None else self._zero_ns

    def _listen(self) -> None:
        try:
            for status in watch(self._paths):
                zero_ns = monotonic_ns() - round(status.uptime_seconds * 1e9)
                with self._lock:
                    self._latest = status
                    # The word that was quickest on its way is the best.
                    self._zero_ns = zero_ns if self._zero_ns is None else min(zero_ns, self._zero_ns)
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
    """Run jobs under the daemon in `paths` until all have ended. KeyboardInterrupt asks them to end, and is kept."""
    board = Board.open(paths.board)
    board.reset_high_water()
    capacity_bytes = board.snapshot().capacity_bytes
    listener, supervisor = _Listener(paths), Supervisor(folder)
    sampler = MemorySampler(board)
    began_ns = monotonic_ns()
    try:
        supervisor.start(jobs, lambda job: environment_of(job, device, paths))
        _attend(supervisor, listener, on_status, on_end)
    finally:
        supervisor.kill()
        samples = sampler.close()
        board.close()
    zero_ns = listener.zero_ns
    status = listener.latest
    return RunRecord(
        policy="" if status is None else status.policy,
        budget_bytes=capacity_bytes if status is None else status.budget_bytes,
        began_ns=began_ns - zero_ns,
        results=tuple(sorted(supervisor.results, key=lambda result: [job.name for job in jobs].index(result.name))),
        samples=tuple(MemorySample(sample.at_ns - zero_ns, sample.held_bytes) for sample in samples),
        high_water_bytes=sampler.high_water_bytes,
        interrupted=supervisor.ending,
    )


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
