"""A plan: what is done to the tensors of one iteration so that the iteration needs less memory.

A tensor that is not kept is absent from the device for one or more gaps of its life. A gap says after which op the
tensor's bytes are released, before which op they are back, and how they come back: copied from the host, recomputed, or
decoded. A plan is nothing but gaps; `apply` computes what they cost, and the executor carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.core.units import format_bytes


class Return(Enum):
    """How a tensor comes back to the device."""

    SWAP = "swap"  # its bytes went to host memory and are copied back
    RECOMPUTE = "recompute"  # the ops that made it run again
    DECODE = "decode"  # a smaller code of it stayed on the device


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """A smaller form of a tensor's bytes."""

    name: str
    ratio: float  # bytes of the code over bytes of the tensor
    lossy: bool  # a lossy codec changes gradients


_CODECS = (
    Codec(name="bit", ratio=1 / 32, lossy=False),  # the sign of a ReLU's output, where the backward pass reads no more
    Codec(name="sparse", ratio=0.5, lossy=False),  # the non-zero values and their positions; a typical ratio
    Codec(name="half", ratio=0.5, lossy=True),  # bfloat16 instead of float32
)
CODECS: Mapping[str, Codec] = MappingProxyType({codec.name: codec for codec in _CODECS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One absence of one tensor: it is on the device until op `after` has run, and again when op `before` runs.

    - Swap: the copy out begins when op `after` has run. The copy in begins when op `fetch` begins (`fetch <= before`);
      with None it begins as late as is in time if no copy is delayed. If `gone` names an op (`after < gone <= before`),
      that op waits until the copy out has ended. Otherwise no op waits, and the bytes are held until the copy ends.
    - Recompute: all ops up to `after` that wrote the tensor run again just before op `before`. A tensor that they read
      must be on the device then, or come back before the same op by a gap of its own.
    - A tensor comes back only for the recomputations before op `before`, and is then released, if no op from there on
      uses it, or if its next gap begins after op `before - 1`. Example: op 1 writes a, op 2 reads a and writes b, op 8
      reads b. With the gaps (a, after 2, before 8) and (b, after 2, before 8), ops 1 and 2 run again before op 8, which
      then runs without a.
    - A gap whose `before` is the number of ops releases the tensor for good.
    """

    tensor: int
    after: int
    before: int
    back: Return
    fetch: int | None = None
    gone: int | None = None
    codec: str | None = None  # for DECODE


def in_order(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """The gaps in the order that a plan has them: by `before`, then `after`, then `tensor`."""
    return tuple(sorted(gaps, key=lambda gap: (gap.before, gap.after, gap.tensor)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The gaps of one iteration, as `in_order` sorts them. A tensor without a gap is kept.

    If the plan has an `order`, ops run in that order, and gaps count ops in it; a program that runs eagerly cannot do
    that. Without one, ops run as in the trace.
    """

    planner: str
    gaps: tuple[Gap, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def lossless(self) -> bool:
        return not any(gap.codec is not None and CODECS[gap.codec].lossy for gap in self.gaps)


class CannotFitError(ValueError):
    """No plan of this planner meets the budget. The message is one line with the planner's lowest peak and the bound.

    `lowest_bytes` is the lowest peak that the planner reached; no plan of any planner can go below `bound_bytes`.
    """

    def __init__(self, planner: str, budget_bytes: int, lowest_bytes: int, bound_bytes: int) -> None:
        super().__init__(
            f"{planner} cannot meet {format_bytes(budget_bytes)}: it reaches {format_bytes(lowest_bytes)}, and no plan "
            f"can go below {format_bytes(bound_bytes)}"
        )
        self.planner = planner
        self.budget_bytes = budget_bytes
        self.lowest_bytes = lowest_bytes
        self.bound_bytes = bound_bytes

    def beside(self, elsewhere_bytes: int) -> CannotFitError:
        """The same error for a budget that must also hold `elsewhere_bytes` that are not in the trace."""
        figures = (self.budget_bytes, self.lowest_bytes, self.bound_bytes)
        return CannotFitError(self.planner, *(each + elsewhere_bytes for each in figures))


class Planner(Protocol):
    """A pure function from a trace, a budget and a device to a plan, except that a search may stop at a time limit.

    The plan's peak, as `apply` computes it, is at most `budget_bytes`; otherwise the planner raises CannotFitError.
    """

    def __call__(self, trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan: ...
