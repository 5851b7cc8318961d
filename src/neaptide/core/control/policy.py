"""The interface of a policy.

A policy is a pure function of a view: equal views, equal actions. Its fields are its parameters and never change. What
it must remember from one decision to the next is in the view (lanes, service, slowdowns seen).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from neaptide.core.control.actions import Action
from neaptide.core.control.need import Need as Need
from neaptide.core.control.view import View


class Policy(ABC):
    """Decides which job may do what, and when."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Need]] = frozenset()
    # Whether jobs may be admitted that need more than the budget together: the ledger allows it, and the device pages.
    oversubscribes: ClassVar[bool] = False

    @abstractmethod
    def decide(self, view: View) -> Sequence[Action]:
        """The actions to take now, in order. Changes nothing."""
