"""What a policy may ask for. The ledger checks each one; an engine carries out what the ledger lets pass.

There is no action for letting a job wait: a job that is not admitted queues, and one that is not started is held.
"""

from __future__ import annotations

import msgspec


class Action(msgspec.Struct, frozen=True, tag_field="action"):
    """Something a policy wants done now."""


class Admit(Action, frozen=True, tag="admit"):
    """Give a queued job the lease on its persistent bytes, in a lane if the policy uses lanes.

    With a ceiling it may never hold more than that, and fails when it needs more.
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
    """From its next iteration on the job follows its n-th plan; 0 is the job as it is."""

    job: str
    plan: int


class SetGate(Action, frozen=True, tag="set_gate"):
    """Open or close the gate before the job's heavy ops; light ones always pass."""

    job: str
    open: bool


class CapInFlight(Action, frozen=True, tag="cap_in_flight"):
    """Let the job launch at most so many kernels ahead; None for no bound."""

    job: str
    kernels: int | None


class Suspend(Action, frozen=True, tag="suspend"):
    """Move the job's bytes to host memory; between iterations, or at the next op inside one."""

    job: str


class Resume(Action, frozen=True, tag="resume"):
    """Bring a suspended job back to where it was."""

    job: str


class WakeAt(Action, frozen=True, tag="wake_at"):
    """Ask again at this time, whatever else happens; the latest request replaces an earlier one."""

    at_ns: int
