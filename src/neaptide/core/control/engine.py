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

    position_ns: int  # of the device in the running iteration, on the time axis of its curve
    held_bytes: int


class Engine(Protocol):
    """Carries actions out and reports what happens.

    An engine never lets the jobs hold more than the budget together: an op whose memory is not to be had waits. Memory
    is granted in the order in which the running iterations were started: an iteration gets what it asks for only if
    every older one could still finish, given what the younger ones hold and the peak it has yet to come to. So the
    oldest always can, and nothing waits for ever, whatever a policy does.
    """

    @property
    def supplies(self) -> frozenset[Need]:
        """What policies may need here."""

    @property
    def now_ns(self) -> int:
        """Time since the run began. Changes nothing."""

    def next_event(self) -> Event | None:
        """Wait for what happens next; None when nothing can happen any more."""

    def carry_out(self, action: Action) -> None:
        """Do what the ledger has let pass."""

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        """See these jobs, all at one moment. Changes nothing."""
