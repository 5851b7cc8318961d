"""What the controller asks of an engine, in virtual time or on real processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from neaptide.core.control.actions import Action
from neaptide.core.control.events import Event
from neaptide.core.control.policy import Need


class Observation(msgspec.Struct, frozen=True, array_like=True):
    """A job as the engine sees it now."""

    position_ns: int  # how far the device is in the running iteration, on the time axis of the job's curve
    held_bytes: int


class Engine(Protocol):
    """Carries actions out and reports what happens.

    An engine never lets the jobs hold more than the budget together, unless the policy oversubscribes: an op waits
    until its memory is granted. A request is granted only if, afterwards, every older iteration can still reach its
    own peak and end. So the oldest iteration can always end, whatever such a policy does.
    """

    @property
    def supplies(self) -> frozenset[Need]:
        """The needs of policies that this engine meets."""

    @property
    def now_ns(self) -> int:
        """Time since the run began. Changes nothing."""

    def next_event(self) -> Event | None:
        """The next event; None when there is none.

        In virtual time this moves the clock, and None ends the run. On real processes this never waits, and None means
        that no event is there now.
        """

    def carry_out(self, action: Action) -> None:
        """Carry out an action that the ledger has accepted."""

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        """Observe these jobs, all at the same moment. Changes nothing."""
