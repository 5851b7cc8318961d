"""The actions that a policy may ask for. The ledger checks each action; an engine carries out those that pass.

No action makes a job wait: a job that is not admitted stays queued, and a job that is not started stays ready.
"""

from __future__ import annotations

import msgspec


class Action(msgspec.Struct, frozen=True, tag_field="action"):
    """What a policy asks an engine to do now."""


class Admit(Action, frozen=True, tag="admit"):
    """Give a queued job the lease on its persistent bytes, in a lane if the policy uses lanes.

    A job never holds more than its ceiling, and fails when it needs more.
    """

    job: str
    lane: int | None = None
    ceiling_bytes: int | None = None


class MoveLane(Action, frozen=True, tag="move_lane"):
    """Put an admitted job into another lane."""

    job: str
    lane: int | None


class Start(Action, frozen=True, tag="start"):
    """Let a ready job begin its next iteration."""

    job: str


class SetPlan(Action, frozen=True, tag="set_plan"):
    """Let the job follow this plan from its next iteration on; plan 0 is the job without a plan."""

    job: str
    plan: int


class SetGate(Action, frozen=True, tag="set_gate"):
    """Open or close the gate before the job's heavy ops; light ones always pass."""

    job: str
    open: bool


class CapInFlight(Action, frozen=True, tag="cap_in_flight"):
    """Let the job launch at most this many kernels beyond the one that runs; None: as core.rules.in_flight says."""

    job: str
    kernels: int | None


class Suspend(Action, frozen=True, tag="suspend"):
    """Move the job's bytes to host memory: at once between iterations, at the next op inside one."""

    job: str


class Resume(Action, frozen=True, tag="resume"):
    """Move a suspended job's bytes back and let it go on where it was."""

    job: str


class WakeAt(Action, frozen=True, tag="wake_at"):
    """Ask the policy again at this time. A later WakeAt replaces an earlier one."""

    at_ns: int
