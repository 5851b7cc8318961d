"""A daemon whose policy keeps a job in host memory."""

from __future__ import annotations

from pathlib import Path

from daemons import DaemonProcess
from neaptide.devices.board import SlotState

SENDS_AWAY = """
from neaptide.core.control.actions import Admit, Start, Suspend
from neaptide.core.control.policy import Policy

class SendsAway(Policy):
    name = "sends-away"

    def decide(self, view):
        here = [job for job in view.jobs if job.name != "away" or {stays}]
        away = [Suspend(job.name) for job in view.jobs if job.admitted and job not in here]
        admitted = [Admit(job.name) for job in view.queued if job in here]
        return [*away, *admitted, *(Start(job.name) for job in (*view.queued, *view.startable) if job in here)]
"""
STAYS = {SlotState.EVICTED: "False", SlotState.SUSPENDED: "job.iterations_done < 3"}


def sending_away(folder: Path, state: SlotState) -> DaemonProcess:
    """A daemon that keeps the job `away` in this state."""
    policy = folder / "sends_away.py"
    policy.write_text(SENDS_AWAY.format(stays=STAYS[state]))
    return DaemonProcess(folder / "run", str(policy))
