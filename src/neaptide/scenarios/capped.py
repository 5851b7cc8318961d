"""A policy under a scenario's own bound on launching ahead."""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.core.control.actions import Action, CapInFlight
from neaptide.core.control.events import JobArrived
from neaptide.core.control.policy import Policy
from neaptide.core.control.view import View


def capped(policy: Policy, kernels: int | None) -> Policy:
    """The policy, with every job held to so many kernels ahead from its arrival on; None changes nothing."""
    if kernels is None:
        return policy

    class Capped(Policy):
        name = policy.name
        needs = policy.needs
        oversubscribes = policy.oversubscribes

        def decide(self, view: View) -> Sequence[Action]:
            actions = policy.decide(view)
            if isinstance(view.event, JobArrived):
                return [CapInFlight(view.event.job, kernels), *actions]
            return actions

    return Capped()
