"""What is done to the tensors of one iteration so that it needs less memory.

A tensor that is not kept is absent for one or more gaps of its life. A gap says after which op its bytes are let go,
before which op they are back, and how they come back: copied from the host, computed again, or decoded. That is all a
plan is; `apply` says what it costs, the executor carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace


class Return(Enum):
    """How a tensor comes back."""

    SWAP = "swap"  # its bytes went to host memory and are copied back
    RECOMPUTE = "recompute"  # the op that made it runs again
    DECODE = "decode"  # a smaller code of it stayed on the device


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """A smaller form of a tensor's bytes. `ratio` is the code's share of the bytes; a lossy one changes gradients."""

    name: str
    ratio: float
    lossy: bool


CODECS: Mapping[str, Codec] = MappingProxyType(
    {
        codec.name: codec
        for codec in (
            Codec(name="bit", ratio=1 / 32, lossy=False),  # the sign of a ReLU's output, where only that is read again
            Codec(
                name="sparse", ratio=0.5, lossy=False
            ),  # non-zero values and where they are; the ratio is a typical one
            Codec(name="half", ratio=0.5, lossy=True),  # bfloat16 of a float32
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One absence of a tensor.

    It is on the device until op `after` has run and again when op `before` runs. A swap's copy out begins when `after`
    has run, its copy in begins when op `fetch` begins (`fetch <= before`; None: as late as is still in time when copies
    are not delayed). If `gone` names an op (`after < gone <= before`), that op waits until the copy out has ended; else
    nobody waits, and the bytes are simply held until then. A recomputed tensor's producing ops, all that wrote it until
    `after`, run again just before op `before`; what they read must be present then, or come back before the same op, by
    a gap of its own. A tensor that had died by then is given a gap that ends there all the same: it is back for the
    recomputations before that op and then let go again; so is one whose next gap is after op `before - 1`. A gap whose
    `before` is the number of ops lets the tensor go for good.
    """

    tensor: int
    after: int
    before: int
    back: Return
    fetch: int | None = None
    gone: int | None = None
    codec: str | None = None  # for DECODE


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The gaps of one iteration; a tensor without one is kept. Gaps are ordered by (before, after, tensor)."""

    planner: str
    gaps: tuple[Gap, ...] = ()

    @property
    def lossless(self) -> bool:
        return not any(gap.codec is not None and CODECS[gap.codec].lossy for gap in self.gaps)


class CannotFitError(ValueError):
    """No plan of this planner meets the budget. The message is one line that names both figures."""

    def __init__(self, planner: str, budget_bytes: int, lowest_bytes: int, bound_bytes: int) -> None:
        from neaptide.core.units import format_bytes

        super().__init__(
            f"{planner} cannot meet {format_bytes(budget_bytes)}: it reaches {format_bytes(lowest_bytes)}, and no plan "
            f"can go below {format_bytes(bound_bytes)}"
        )
        self.planner = planner
        self.budget_bytes = budget_bytes
        self.lowest_bytes = lowest_bytes
        self.bound_bytes = bound_bytes

    def beside(self, elsewhere_bytes: int) -> CannotFitError:
        """The same, said of a budget that also has to hold what is no part of the trace."""
        figures = (self.budget_bytes, self.lowest_bytes, self.bound_bytes)
        return CannotFitError(self.planner, *(each + elsewhere_bytes for each in figures))


class Planner(Protocol):
    """A pure function. The plan's peak, as `apply` computes it, is at most `budget_bytes`; else CannotFitError."""

    def __call__(self, trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan: ...
