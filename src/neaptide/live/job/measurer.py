"""What measures a job's first iterations, as the client asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from neaptide.core.traces.columns import Integers
from neaptide.core.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Measured:
    """A job's iteration, as it was measured."""

    trace: Trace
    iterations: int  # begun until the trace was complete, measured or not, without evaluations
    op_of_kernel: Integers | None = None  # for each kernel that an iteration launches, the op that it belongs to


class Measurer(Protocol):
    """Sees every iteration begin, until it has a trace. Its methods are called on the program's own thread."""

    def begin(self, serving: bool, trained: bool, name: Callable[[], str]) -> Measured | None:
        """An iteration begins. Returns the measurement once it is complete; `name` then gives the trace's name."""

    def change(self) -> None:
        """Another optimizer now closes iterations: drop what was measured and start again with the next iteration.

        Everything before that is counted as one iteration.
        """

    def stop(self) -> None:
        """Stop measuring, forget what was seen, and start again with the next iteration."""
