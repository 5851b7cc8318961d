"""The status that commands show: the device, the attached jobs, and the last jobs that ended."""

from __future__ import annotations

import os
from collections import deque

from msgspec.structs import replace

from neaptide.core.control import events as ev
from neaptide.core.control.job import DisplayState, JobKind, JobState, display_state, is_interruption
from neaptide.core.control.ledger import Ledger
from neaptide.core.units import format_seconds
from neaptide.devices.board import Board, Progress
from neaptide.live.daemon.attached_job import AttachedJob, EvictionReason, waits_for_budget
from neaptide.live.daemon.engine import LiveEngine
from neaptide.live.protocol.messages import JobStatus, NotShared, Status

_REMEMBERED = 64  # jobs that ended
_OFF_THE_DEVICE = (DisplayState.QUEUED, DisplayState.SUSPENDED, DisplayState.EVICTED)
_MEASURING_NS = 20_000_000_000  # a job that shows no iterations for so long is not shown as being measured any more


class StatusBuilder:
    """Makes the status, and keeps that of jobs that ended."""

    def __init__(self, board: Board, engine: LiveEngine, ledger: Ledger) -> None:
        self._board, self._engine, self._ledger = board, engine, ledger
        self._ended: deque[JobStatus] = deque(maxlen=_REMEMBERED)
        self._not_shared: dict[object, JobStatus] = {}  # by connection

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
            jobs=(
                *(self._of(job) for job in self._engine.jobs.values()),
                *self._not_shared.values(),
                *reversed(self._ended),
            ),
            problem=problem,
        )

    def remember(self, job: AttachedJob, end: ev.JobEnded | ev.JobFailed | ev.JobLeft) -> None:
        """Keep the status of a job that has ended. One that only left goes on, and may join again."""
        if isinstance(end, ev.JobLeft):
            return
        state, failure = DisplayState.DONE, ""
        if isinstance(end, ev.JobFailed) and is_interruption(end.reason):
            state = DisplayState.INTERRUPTED
        elif isinstance(end, ev.JobFailed):
            state, failure = DisplayState.FAILED, end.reason
        last = self._of(job)
        self._ended.append(
            replace(last, state=state, reason=failure, held_bytes=0, over_bytes=0, progress=0.0, stalled=False)
        )

    def note_not_shared(self, connection: object, said: NotShared) -> None:
        """Show a process that was to be a job and is none, until `forget`."""
        self._not_shared[connection] = _status_of_none(said)

    def forget(self, connection: object) -> None:
        """The connection has ended."""
        self._not_shared.pop(connection, None)

    def _of(self, job: AttachedJob) -> JobStatus:
        seen = self._board.progress(job.slot)
        job.note_waiting(seen)
        status = status_of(job, self._ledger, seen, self._engine.now_ns, stopped=self._engine.is_stopped(job))
        if status.state not in _OFF_THE_DEVICE or status.reason:
            return status
        budget_bytes = self._board.snapshot().capacity_bytes
        if status.needs_bytes <= budget_bytes:
            return status
        return replace(status, reason=waits_for_budget(status.needs_bytes, budget_bytes))


def status_of(job: AttachedJob, ledger: Ledger, seen: Progress, now_ns: int, *, stopped: bool = False) -> JobStatus:
    """The status of an attached job. `stopped`: its process is, which the daemon may have had no reason to notice."""
    profile = job.profile
    position_ns = job.position_ns(seen.done, now_ns)
    return JobStatus(
        name=job.name,
        pid=job.hello.pid,
        kind=job.hello.kind,
        state=_state(job, ledger, now_ns, stopped),
        priority=job.hello.priority,
        iterations_done=job.measured_iterations + job.done_iterations,
        iterations=job.hello.iterations,
        iterations_per_second=_rate(job, now_ns),
        solo_seconds=0.0 if profile is None else profile.solo_ns / 1e9,
        progress=0.0 if profile is None else min(position_ns / max(profile.solo_ns, 1), 1.0),
        held_bytes=seen.held_bytes,
        over_bytes=seen.over_bytes,
        peak_bytes=max(job.peak_bytes, seen.held_bytes),
        needs_bytes=0 if profile is None else profile.peak_bytes,
        persistent_bytes=0 if profile is None else profile.persistent_bytes,
        framework_bytes=0 if profile is None else profile.framework_bytes,
        waiting_seconds=job.waited_ns / 1e9,
        stalled=job.stalled or bool(seen.wanted_bytes),
        reason=job.waits_for or _out_of_reach(job),
    )


def _out_of_reach(job: AttachedJob) -> str:
    """Why the job's deadlines could not be kept even if it were alone; empty if they could."""
    deadline, profile = job.hello.deadline_seconds, job.profile
    if deadline is None or profile is None or profile.solo_ns <= 1e9 * deadline:
        return ""
    took, asked = format_seconds(profile.solo_ns / 1e9), format_seconds(deadline)
    return f"its SLO of {asked} cannot be met: a request takes {took} alone"


def _status_of_none(said: NotShared) -> JobStatus:
    """The status of a process that is no job: it has a name and a reason, and nothing else is known of it."""
    kind, state = JobKind.TRAINING, DisplayState.NOT_SHARED
    return JobStatus(name=said.job, pid=said.pid, kind=kind, state=state, reason=said.reason)


def _state(job: AttachedJob, ledger: Ledger, now_ns: int, stopped: bool) -> DisplayState:
    known: JobState | DisplayState
    if ledger.knows(job.name):
        known = ledger.account(job.name).state
    elif job.waits_for:
        known = DisplayState.QUEUED
    else:
        new = now_ns - job.greeted_ns < _MEASURING_NS
        known = DisplayState.MEASURING if new else DisplayState.UNMEASURED
    evicted = job.eviction in (EvictionReason.DEADLOCK, EvictionReason.NEWCOMER, EvictionReason.NO_ROOM)
    return display_state(known, evicted=evicted, unresponsive=job.unresponsive or stopped)


def _rate(job: AttachedJob, now_ns: int) -> float:
    """Iterations per second over the last iterations; it falls while none ends."""
    ends = job.ends_ns
    if len(ends) < 2:
        return 0.0
    between_ns = (ends[-1] - ends[0]) / (len(ends) - 1)
    overdue = now_ns - ends[-1] > 2 * between_ns
    span_ns = (now_ns if overdue else ends[-1]) - ends[0]
    return (len(ends) - 1) * 1e9 / max(span_ns, 1)
