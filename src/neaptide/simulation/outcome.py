"""The outcome of a simulated run: its log, its memory over time and its costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neaptide.core.control.controller import Entry
from neaptide.core.traces.columns import Integers


@dataclass(frozen=True, slots=True, eq=False)
class MemorySeries:
    """A step function: `held_bytes[i]` from `at_ns[i]` on, nothing before the first.

    A long run does not keep every change. Of changes that are close in time it keeps the first, the last, the lowest
    and the highest, so peaks are exact in height and in time.
    """

    at_ns: Integers
    held_bytes: Integers

    @property
    def peak_bytes(self) -> int:
        return int(self.held_bytes.max(initial=0))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """One policy's run in virtual time."""

    policy: str
    budget_bytes: int
    entries: tuple[Entry, ...]
    memory: Mapping[str, MemorySeries]  # per job
    total: MemorySeries
    peak_bytes: int
    over_budget_bytes: int  # the most that was ever held above the budget in force
    end_ns: int
    op_events: int  # kernels simulated
    decisions: int
    decision_seconds: float  # processor time spent in policy code
