"""Gist: how much smaller a network's ephemeral memory gets when all that can be encoded is, and what it costs.

Published: 2x smaller at best and 1.8x on average with reduced precision, for about 4% of time
(reported, not re-checked).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Trace
from neaptide.planning.apply import summary_of
from neaptide.planning.planners import gist

PUBLISHED_BEST_RATIO, PUBLISHED_MEAN_RATIO, PUBLISHED_SLOWDOWN = 2.0, 1.8, 1.04


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One network with everything encoded."""

    name: str
    lossy: bool
    ephemeral_ratio: float  # without over with
    saved_ratio: float  # the same of what the forward pass leaves for the backward pass
    slowdown: float
    tensors: Mapping[str, int]  # how many have each codec


def rows(traces: Mapping[str, Trace], device: DeviceSpec) -> list[Row]:
    """Each network lossless and lossy."""
    return [_row(name, trace, lossy, device) for name, trace in traces.items() for lossy in (False, True)]


def _row(name: str, trace: Trace, lossy: bool, device: DeviceSpec) -> Row:
    plan = gist.encode_all(trace, lossy)
    found = summary_of(trace, plan, device)
    left, coded = gist.saved_bytes(trace, lossy)
    codecs = sorted(gap.codec for gap in plan.gaps if gap.codec is not None)
    return Row(
        name=name,
        lossy=lossy,
        ephemeral_ratio=trace.ephemeral_bytes / max(found.peak_bytes - trace.persistent_bytes, 1),
        saved_ratio=left / max(coded, 1),
        slowdown=found.seconds / trace.seconds,
        tensors={codec: codecs.count(codec) for codec in dict.fromkeys(codecs)},
    )
