"""A job that asks for more than the budget."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from neaptide.devices import chosen_device, default_kind
from neaptide.live.protocol.paths import RuntimePaths
from neaptide.live.runs.launching import JobCommand, environment_of
from neaptide.verification.device_count import wait_for_rest
from neaptide.verification.facts import Refusal
from neaptide.verification.own_daemon import own_daemon
from neaptide.verification.single import run_to_its_end

JOB = "greedy"
_BEYOND_BYTES = 1 << 30
_PROGRAM = "neaptide.verification.programs.refused"


def ask_for_too_much(folder: Path, bytes_at_rest: int | None) -> Refusal:
    """Run the job: what torch says to it, and whether it goes on."""
    wait_for_rest(bytes_at_rest)
    kind, paths, file = default_kind(), RuntimePaths(folder / "refused"), folder / "refused.json"
    budget_bytes = kind.default_budget_bytes(chosen_device().index)
    command = (sys.executable, "-m", _PROGRAM, str(budget_bytes + _BEYOND_BYTES), str(file))
    job = JobCommand(name=JOB, command=command)
    with own_daemon(paths, "neaptide", budget_bytes):
        run_to_its_end(job, environment_of(job, kind.settings_type(), paths), folder)
    return msgspec.json.decode(file.read_bytes(), type=Refusal) if file.exists() else Refusal.none()
