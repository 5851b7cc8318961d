"""The interface of a policy.

A policy is a pure function of a view: equal views, equal actions. Its fields are its parameters and never change. What
it must remember from one decision to the next is in the view (lanes, service, slowdowns seen).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

from neaptide.core.control.actions import Action
from neaptide.core.control.view import View


class Need(Enum):
    """What a policy reads that not every engine or job can supply."""

    CURVE = "curve"  # a job's memory over its iteration
    PROGRESS = "progress"  # where the device is in a running iteration
    ITERATION_TIME = "iteration time"  # alone
    REMAINING = "remaining iterations"
    DEADLINE = "deadline"  # of inference requests
    PHASES = "phases"  # an event when the forward pass ends
    GATE = "gate"  # heavy ops can be held back
    SUSPEND = "suspend"  # a job's bytes can be moved to the host


class Policy(ABC):
    """Decides which job may do what, and when."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Need]] = frozenset()
    # Gives out more memory than there is and leaves it to the device to page; the ledger then only counts.
    oversubscribes: ClassVar[bool] = False

    @abstractmethod
    def decide(self, view: View) -> Sequence[Action]:
        """The actions to take now, in order. Changes nothing."""
