"""A daemon's status and those of its jobs, made by hand."""

from __future__ import annotations

from typing import Any

from neaptide.core.control.job import DisplayState, JobKind
from neaptide.core.units import GIB, MIB
from neaptide.live.protocol.messages import JobStatus, Status


def job_status(name: str, state: str = "running", **changed: Any) -> JobStatus:
    given: dict[str, Any] = {
        "pid": 1,
        "kind": JobKind.TRAINING,
        "priority": 0,
        "iterations_done": 10,
        "iterations": 40,
        "iterations_per_second": 2.0,
        "solo_seconds": 0.25,
        "progress": 0.5,
        "held_bytes": 512 * MIB,
        "peak_bytes": 700 * MIB,
        "needs_bytes": 600 * MIB,
        "persistent_bytes": 100 * MIB,
        "waiting_seconds": 1.5,
        "stalled": False,
    }
    return JobStatus(name=name, state=DisplayState(state), **{**given, **changed})


def status(*jobs: JobStatus, uptime_seconds: float = 5.0, **changed: Any) -> Status:
    given: dict[str, Any] = {
        "pid": 1,
        "policy": "neaptide",
        "budget_bytes": 2 * GIB,
        "used_bytes": GIB,
        "high_water_bytes": GIB,
        "sms": 2,
        "board": "board",
    }
    return Status(uptime_seconds=uptime_seconds, jobs=jobs, **{**given, **changed})
