"""The actions that a policy may ask for. The ledger checks each action; an engine carries out those that pass.

No action makes a job wait: a job that is not admitted stays queued, and a job that is not started stays ready.
"""

from __future__ import annotations

import msgspec


class Action(msgspec.Struct, frozen=True, tag_field="action"):
    """What a policy asks an engine to do now."""


class Admit(Action, frozen=True, tag="admit"):
    """Give a queued job the lease on its persistent bytes, in a lane if the policy uses lanes.

    A job holds no more than its ceiling. When it needs more, it fails in simulation; a real job waits until it needs
    less, and gets more if it stands still.
    """

    job: str
    lane: int | None = None
    ceiling_bytes: int | None = None


class MoveLane(Action, frozen=True, tag="move_lane"):
    """Put an admitted job into another lane: from now on its iterations take their bytes there."""

    job: str
    lane: int | None


class SizeLane(Action, frozen=True, tag="size_lane"):
    """Set bytes aside for the iterations of a lane's jobs, beyond what they hold between iterations; 0 closes it.

    An iteration takes its bytes from its lane. If it needs more than the lane has, it takes them from what no lane has,
    or waits (core/rules/memory_grant.h).
    """

    lane: int
    bytes: int


class Start(Action, frozen=True, tag="start"):
    """Let a ready job begin its next iteration."""

    job: str


class SetPlan(Action, frozen=True, tag="set_plan"):
    """Let the job follow this plan from its next iteration on; plan 0 is the job without a plan."""

    job: str
    plan: int


class SetLimit(Action, frozen=True, tag="set_limit"):
    """Let the job hold at most this many bytes on the device from its next iteration on; None: what it needs.

    What an iteration needs beyond the limit overflows: it lies in host memory, where ops reach it over the link. What a
    job holds between iterations stays on the device. Refused on a device without overflow (Need.OVERFLOW).
    """

    job: str
    bytes: int | None


class SetGate(Action, frozen=True, tag="set_gate"):
    """Open or close the gate before the job's heavy ops; light ones pass, unless it `holds_light` ones, too.

    A gate that is open until a time then closes by itself, and an op that it holds and that would not end before does
    not begin.
    """

    job: str
    open: bool
    until_ns: int | None = None
    holds_light: bool = False


class SetClass(Action, frozen=True, tag="set_class"):
    """Put the job into the deadline class, or back among the best-effort jobs.

    Ops of deadline jobs go before best-effort ops that have not begun. A best-effort heavy op does not begin while a
    heavy op of a deadline job is on the device. A device without classes (Need.CLASSES) takes no notice.
    """

    job: str
    deadline: bool


class SetShare(Action, frozen=True, tag="set_share"):
    """Let the job use at most this share of the device's SMs, above 0 and at most 1; None: all of them.

    An op that would use more takes longer in proportion in virtual time; on a device it keeps its width, and the
    job pauses until its average is within the share, so that no number changes.
    """

    job: str
    share: float | None


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
