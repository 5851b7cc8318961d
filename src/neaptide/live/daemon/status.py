"""The status that commands show: the device, the attached jobs, and the last jobs that ended."""

from __future__ import annotations

import os
from collections import deque

from msgspec.structs import replace

from neaptide.core.control.job import DisplayState, display_state
from neaptide.core.control.ledger import Ledger
from neaptide.devices.board import Board, Progress
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason, Stage
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.protocol.messages import JobStatus, Status

_REMEMBERED = 64  # jobs that ended
_BEFORE = {Stage.WAITING: DisplayState.TO_BE_MEASURED, Stage.MEASURING: DisplayState.MEASURING}


class StatusBuilder:
    """Makes the status, and keeps that of jobs that ended."""

    def __init__(self, board: Board, engine: LiveEngine, ledger: Ledger) -> None:
        self._board, self._engine, self._ledger = board, engine, ledger
        self._ended: deque[JobStatus] = deque(maxlen=_REMEMBERED)

    def status(self, policy: str, budget_bytes: int, problem: str) -> Status:
        """The status now."""
        self._board.reap()  # dead processes that never said Hello, too
        seen = self._board.snapshot()
        return Status(
            pid=os.getpid(),
            policy=policy,
            uptime_seconds=self._engine.now_ns / 1e9,
            budget_bytes=budget_bytes,
            used_bytes=seen.used_bytes,
            high_water_bytes=seen.high_water_bytes,
            sms=self._board.region_setting(),
            board=str(self._board.path),
            jobs=(*self._ended, *(self._of(job) for job in self._engine.jobs.values())),
            problem=problem,
        )

    def remember(self, job: AttachedJob, failure: str | None) -> None:
        """Keep the status of a job that ends."""
        state = DisplayState.DONE if failure is None else DisplayState.FAILED
        last = self._of(job)
        self._ended.append(replace(last, state=state, reason=failure or "", held_bytes=0, progress=0.0, stalled=False))

    def _of(self, job: AttachedJob) -> JobStatus:
        seen = self._board.progress(job.slot)
        return status_of(job, self._ledger, seen, self._engine.now_ns)


def status_of(job: AttachedJob, ledger: Ledger, seen: Progress, now_ns: int) -> JobStatus:
    """The status of an attached job."""
    profile = job.profile
    position_ns = job.position_ns(seen.done)
    here_ns = 0 if job.arrived_ns is None else now_ns - job.arrived_ns
    return JobStatus(
        name=job.name,
        pid=job.hello.pid,
        kind=job.hello.kind,
        state=_state(job, ledger),
        priority=job.hello.priority,
        iterations_done=job.done_iterations,
        iterations=job.hello.iterations,
        iterations_per_second=_rate(job, now_ns),
        solo_seconds=0.0 if profile is None else profile.solo_ns / 1e9,
        progress=0.0 if profile is None else min(position_ns / max(profile.solo_ns, 1), 1.0),
        held_bytes=seen.held_bytes,
        peak_bytes=max(job.peak_bytes, seen.held_bytes),
        needs_bytes=0 if profile is None else profile.peak_bytes,
        persistent_bytes=0 if profile is None else profile.persistent_bytes,
        waiting_seconds=max(here_ns - job.busy_ns, 0) / 1e9,
        stalled=job.stalled or bool(seen.wanted_bytes),
    )


def _state(job: AttachedJob, ledger: Ledger) -> DisplayState:
    known = ledger.account(job.name).state if job.arrived else _BEFORE[job.stage]
    evicted = job.eviction in (EvictionReason.DEADLOCK, EvictionReason.MEASURING, EvictionReason.NO_ROOM)
    return display_state(known, evicted=evicted, unresponsive=job.unresponsive)


def _rate(job: AttachedJob, now_ns: int) -> float:
    """Iterations per second over the last iterations; it falls while none ends."""
    ends = job.ends_ns
    if len(ends) < 2:
        return 0.0
    between_ns = (ends[-1] - ends[0]) / (len(ends) - 1)
    overdue = now_ns - ends[-1] > 2 * between_ns
    span_ns = (now_ns if overdue else ends[-1]) - ends[0]
    return (len(ends) - 1) * 1e9 / max(span_ns, 1)
