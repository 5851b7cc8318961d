"""How things stand, for people: the daemon's jobs as its commands show them."""

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
_BEFORE = {
    Stage.BUILDING: DisplayState.BUILDING,
    Stage.WAITING: DisplayState.TO_BE_MEASURED,
    Stage.MEASURED: DisplayState.MEASURED,
}


class StatusBuilder:
    """The board, the jobs that are here, and the last ones that ended."""

    def __init__(self, board: Board, engine: LiveEngine, ledger: Ledger) -> None:
        self._board, self._engine, self._ledger = board, engine, ledger
        self._ended: deque[JobStatus] = deque(maxlen=_REMEMBERED)

    def status(self, policy: str, budget_bytes: int, problem: str) -> Status:
        """Everything, now."""
        self._board.reap()  # also what never said Hello
        seen = self._board.snapshot()
        return Status(
            pid=os.getpid(),
            policy=policy,
            uptime_seconds=self._engine.now_ns / 1e9,
            budget_bytes=budget_bytes,
            used_bytes=seen.used_bytes,
            high_water_bytes=seen.high_water_bytes,
            sms=seen.sms,
            board=str(self._board.path),
            jobs=(*self._ended, *(self._of(resident) for resident in self._engine.residents.values())),
            problem=problem,
        )

    def remember(self, resident: AttachedJob, failure: str | None) -> None:
        """Keep how a job stood when it ended."""
        state = DisplayState.DONE if failure is None else DisplayState.FAILED
        last = self._of(resident)
        self._ended.append(replace(last, state=state, reason=failure or "", held_bytes=0, progress=0.0, stalled=False))

    def _of(self, resident: AttachedJob) -> JobStatus:
        seen = self._board.progress(resident.slot)
        return status_of(resident, self._ledger, seen, self._engine.now_ns)


def status_of(resident: AttachedJob, ledger: Ledger, seen: Progress, now_ns: int) -> JobStatus:
    """One job that is here."""
    profile = resident.profile
    position_ns = resident.position_ns(seen.done)
    here_ns = 0 if resident.arrived_ns is None else now_ns - resident.arrived_ns
    return JobStatus(
        name=resident.name,
        pid=resident.hello.pid,
        kind=resident.hello.kind,
        state=_state(resident, ledger),
        priority=resident.hello.priority,
        iterations_done=resident.done_iterations,
        iterations=resident.hello.iterations,
        iterations_per_second=_rate(resident, now_ns),
        solo_seconds=0.0 if profile is None else profile.solo_ns / 1e9,
        progress=0.0 if profile is None else min(position_ns / max(profile.solo_ns, 1), 1.0),
        held_bytes=seen.held_bytes,
        peak_bytes=max(resident.peak_bytes, seen.held_bytes),
        needs_bytes=0 if profile is None else profile.peak_bytes,
        persistent_bytes=0 if profile is None else profile.persistent_bytes,
        waiting_seconds=max(here_ns - resident.busy_ns, 0) / 1e9,
        stalled=resident.stalled or bool(seen.wanted_bytes),
    )


def _state(resident: AttachedJob, ledger: Ledger) -> DisplayState:
    known = ledger.account(resident.name).state if resident.arrived else _BEFORE[resident.stage]
    evicted = resident.away in (EvictionReason.DEADLOCK, EvictionReason.MEASURING, EvictionReason.NO_ROOM)
    return display_state(known, evicted=evicted, unresponsive=resident.unresponsive)


def _rate(resident: AttachedJob, now_ns: int) -> float:
    """Iterations a second over the last ones; it falls while none ends."""
    ends = resident.ends_ns
    if len(ends) < 2:
        return 0.0
    between_ns = (ends[-1] - ends[0]) / (len(ends) - 1)
    overdue = now_ns - ends[-1] > 2 * between_ns
    span_ns = (now_ns if overdue else ends[-1]) - ends[0]
    return (len(ends) - 1) * 1e9 / max(span_ns, 1)
