"""The one loop of every run: event -> ledger -> view -> policy -> checked actions -> engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from neaptide.core.control.actions import Action, Start, Suspend
from neaptide.core.control.engine import Engine, Observation
from neaptide.core.control.events import Event
from neaptide.core.control.job import Job
from neaptide.core.control.ledger import Ledger
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import View


class Decided(msgspec.Struct, frozen=True, tag_field="log", tag="decided"):
    """An action that was carried out."""

    at_ns: int
    action: Action


class Refused(msgspec.Struct, frozen=True, tag_field="log", tag="refused"):
    """An action that the ledger refused, and that was not carried out."""

    at_ns: int
    action: Action
    reason: str


Entry = Event | Decided | Refused  # what the log of a run contains


class Handled(msgspec.Struct, frozen=True):
    """An event that the policy was asked about, and what the engine saw of each job then."""

    event: Event
    seen: Mapping[str, Observation]


Note = Handled | Decided | Refused  # what the controller reports while it runs
Decide = Callable[[View], Sequence[Action]]


class Controller:
    """Runs one policy on one engine. `decide` replaces the policy's own method, to time it or to add actions."""

    def __init__(
        self,
        jobs: Iterable[Job],
        budget_bytes: int,
        policy: Policy,
        engine: Engine,
        note: Callable[[Note], None],
        decide: Decide | None = None,
    ) -> None:
        needs = policy.needs | {Need.PAGING} if policy.oversubscribes else policy.needs
        if missing := ", ".join(sorted(need.value for need in needs - engine.supplies)):
            raise ValueError(f"policy {policy.name} needs what this device cannot supply: {missing}")
        overflow, holds = Need.OVERFLOW in engine.supplies, Need.HOLDING in engine.supplies
        self.ledger = Ledger(
            jobs, budget_bytes, oversubscribes=policy.oversubscribes, overflow=overflow, holds_launched=holds
        )
        self._policy = policy
        self._decide = decide or policy.decide
        self._engine = engine
        self._note = note

    def run(self) -> None:
        """Handle events until the engine has none left."""
        while (event := self._engine.next_event()) is not None:
            self.handle(event)

    def handle(self, reported: Event) -> None:
        """Let the policy answer one event, unless it is out of date."""
        if (event := self.ledger.current(reported)) is None:
            return
        self.ledger.apply(event)
        seen = self._engine.observe(self.ledger.visible_jobs())
        self._note(Handled(event, seen))
        now_ns = event.at_ns
        for decided in self._decide(self.ledger.view(event, seen)):
            action = decided
            if isinstance(decided, Suspend) and self.ledger.cannot_move(decided.job, now_ns):
                action = Start(decided.job)  # its bytes stay on the device in any case, so it may as well run
            if reason := self.ledger.refusal(action, now_ns):
                self._note(Refused(now_ns, action, reason))
                continue
            self.ledger.commit(action, now_ns)
            self._note(Decided(now_ns, action))
            self._engine.carry_out(action)
