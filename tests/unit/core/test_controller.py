from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from neaptide.core.control.actions import Action
from neaptide.core.control.controller import Controller
from neaptide.core.control.engine import Observation
from neaptide.core.control.events import Event, Woken
from neaptide.core.control.policy import Need, Policy
from neaptide.core.control.view import View


class Empty:
    """An engine without jobs."""

    now_ns = 0

    def __init__(self, supplies: frozenset[Need]) -> None:
        self.supplies = supplies

    def next_event(self) -> Event | None:
        return None

    def carry_out(self, action: Action) -> None: ...

    def observe(self, jobs: Iterable[str]) -> Mapping[str, Observation]:
        return {job: Observation(0, 0) for job in jobs}


class Looks(Policy):
    name = "looks"

    def __init__(self) -> None:
        self.seen: list[View] = []

    def decide(self, view: View) -> Sequence[Action]:
        self.seen.append(view)
        return ()


@pytest.mark.parametrize("holds", [True, False])
def test_a_policy_sees_whether_closed_gates_hold_what_was_launched(holds: bool) -> None:
    policy = Looks()
    supplies = frozenset(Need) if holds else frozenset(Need) - {Need.HOLDING}
    Controller((), 100, policy, Empty(supplies), lambda _: None).handle(Woken(1))
    assert [view.holds_launched for view in policy.seen] == [holds]
