"""How ops that run side by side on the device slow each other down.

Each op has a demand: the share of compute, of bandwidth, of the SMs and of the link that it uses alone, and its time.
Blocks on an SM are not interrupted, so an op waits for a turn of each neighbour. A turn lasts as long as the
neighbour's op, but no longer than a wave of its blocks. These waits bound the op's rate (1 is as fast as alone). Within
the bounds, rates are max-min fair: all rise together; when a resource is used up, the rates of the ops that need it
stop rising (progressive filling). Ops of deadline jobs come first, and others share what these leave. `rates` is the
reference for native/contention.cpp, equal to it bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Floats
from neaptide.core.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class OpDemand:
    """The shares of the device that an op uses when it is alone, 0..1, and how long it then runs."""

    compute: float = 0.0
    bandwidth: float = 0.0
    fill: float = 0.0
    link: float = 0.0  # while it pages
    seconds: float = float("inf")  # more than 0
    deadline: bool = False  # of a deadline job


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """What the device can give to ops side by side, in units of its peaks, and how long its SMs keep others waiting.

    The capacities are the device's own. `wave_seconds` is fitted to half of Gavel's pairs of jobs on a V100
    (docs/fidelity.md). Orion's kernels there agree: weighted by time, a wave lasts 69 us in MobileNet-v2 and 95 us in
    ResNet-50.
    """

    compute: float = 1.0
    bandwidth: float = 1.0
    fill: float = 1.0
    link: float = 1.0
    wave_seconds: float = 85e-6

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name != "wave_seconds" and not 0 < value < float("inf"):
                raise ValueError(f"contention: {name} must be positive and finite, not {value}")
            if not 0 <= value < float("inf"):
                raise ValueError(f"contention: {name} must be finite and not negative, not {value}")

    @property
    def capacities(self) -> tuple[float, float, float, float]:
        return self.compute, self.bandwidth, self.fill, self.link


def demands_of(trace: Trace, device: DeviceSpec) -> tuple[Floats, Floats, Floats]:
    """The demand of each op of a trace on compute, bandwidth and SMs."""
    ops = trace.ops
    seconds = np.where(ops.seconds > 0, ops.seconds, np.inf)
    compute = np.clip(ops.flops / device.matrix_flops / seconds, 0, 1)
    bandwidth = np.clip(ops.moved_bytes / device.bandwidth / seconds, 0, 1)
    return compute, bandwidth, np.ascontiguousarray(ops.fill)


def rates(demands: Sequence[OpDemand], contention: Contention) -> list[float]:
    """The rate of each of the ops that run at once."""
    if len(demands) == 1:
        return [1.0]
    turns = [demand.fill * min(contention.wave_seconds, demand.seconds) for demand in demands]
    all_turns = 0.0
    for turn in turns:
        all_turns += turn  # not sum(), which rounds differently
    waits = [max(all_turns - turn, 0.0) for turn in turns]
    most = [1 / (1 + wait / demand.seconds) for wait, demand in zip(waits, demands, strict=True)]
    found = [-1.0] * len(demands)
    used = [0.0] * len(contention.capacities)
    for deadline in (True, False):
        rising = [index for index, demand in enumerate(demands) if demand.deadline is deadline]
        _fill_up(rising, [astuple(demand)[:4] for demand in demands], contention.capacities, most, used, found)
    return found


def _fill_up(
    those: Sequence[int],
    shares: Sequence[tuple[float, ...]],
    capacities: Sequence[float],
    most: Sequence[float],
    used: list[float],
    found: list[float],
) -> None:
    """Progressive filling of the rates of `those` ops; written with the same order of additions as the C++."""
    resources = range(len(capacities))
    reached = 0.0
    while rising := [index for index in those if found[index] < 0]:
        wanted = [0.0] * len(capacities)
        for index in rising:
            for k in resources:
                wanted[k] += shares[index][k]
        limits = [max((capacities[k] - used[k]) / wanted[k], reached) if wanted[k] > 0 else 2.0 for k in resources]
        reached = min(1.0, *limits, *(most[index] for index in rising))
        for index in rising:
            if reached >= most[index] or any(limits[k] <= reached and shares[index][k] > 0 for k in resources):
                found[index] = reached
                for k in resources:
                    used[k] += reached * shares[index][k]
