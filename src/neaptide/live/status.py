"""How things stand, for people: the daemon's jobs as its commands show them."""

from __future__ import annotations

from neaptide.core.ledger import Ledger
from neaptide.devices.board import Progress
from neaptide.live.protocol import JobStatus
from neaptide.live.resident import Away, Resident, Stage


def status_of(resident: Resident, ledger: Ledger, seen: Progress, now_ns: int) -> JobStatus:
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


def _state(resident: Resident, ledger: Ledger) -> str:
    if resident.stage is not Stage.ARRIVED:
        return str(resident.stage.value)
    if resident.absent:
        return "stopped"
    if resident.away in (Away.DEADLOCK, Away.MEASURING):
        return "evicted"
    state: str = ledger.account(resident.name).state.value
    return state


def _rate(resident: Resident, now_ns: int) -> float:
    """Iterations a second over the last ones; it falls while none ends."""
    ends = resident.ends_ns
    if len(ends) < 2:
        return 0.0
    between_ns = (ends[-1] - ends[0]) / (len(ends) - 1)
    overdue = now_ns - ends[-1] > 2 * between_ns
    span_ns = (now_ns if overdue else ends[-1]) - ends[0]
    return (len(ends) - 1) * 1e9 / max(span_ns, 1)
