"""The limits of a planner on one device: the largest batch and the deepest ResNet that fit (SuperNeurons).

Networks are described layer by layer, so a planner sees what the paper's own runtime saw. Weights and their gradients
are on the device beside the pool; the paper does not say what else is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Kind, Trace
from neaptide.planning.analysis.layer_kinds import LayerKind
from neaptide.planning.apply import apply
from neaptide.planning.plan import CannotFitError, Plan, Planner
from neaptide.planning.planners.liveness import releases
from neaptide.reproductions.networks.layers import Network, network_trace
from neaptide.reproductions.networks.superneurons_networks import RESNETS, alexnet, deep_resnet, resnet, vgg16

NETWORKS: Mapping[str, Callable[[int], Network]] = MappingProxyType(
    {
        "alexnet": alexnet,
        "vgg16": vgg16,
        **{f"resnet{depth}": partial(resnet, blocks) for depth, blocks in RESNETS.items()},
    }
)

# Reported for SuperNeurons on 12 GB; not re-checked.
REPORTED_BATCH: Mapping[str, int] = MappingProxyType(
    {"alexnet": 1792, "vgg16": 224, "resnet50": 384, "resnet101": 256, "resnet152": 176}
)
REPORTED_DEPTH, REPORTED_DEPTH_OF_TENSORFLOW = 1920, 592
_WEIGHT_COPIES = 2


def largest_batch(build: Callable[[int], Network], planner: Planner | None, device: DeviceSpec, step: int = 16) -> int:
    """The largest multiple of `step` that fits the device; zero if none does. Without a planner, liveness alone."""
    return step * _most(lambda count: fits(build(step * count), planner, device))


def deepest_resnet(planner: Planner | None, device: DeviceSpec, batch: int = 16) -> int:
    """The depth of the deepest ResNet with stages of 6, 32, n and 6 blocks that fits; zero if none does."""
    blocks = _most(lambda third: fits(deep_resnet(third, batch), planner, device))
    return 3 * (6 + 32 + blocks + 6) + 2 if blocks else 0


@dataclass(frozen=True, slots=True)
class Planned:
    """A network's iteration under a plan, and what the results of one kind of layer hold of its peak."""

    seconds: float
    peak_bytes: int
    kind_bytes: int


def planned(network: Network, planner: Planner, device: DeviceSpec, kind: LayerKind) -> Planned:
    """The network under a planner's plan for the whole device; CannotFitError if there is none."""
    trace = live_trace(network, device, _WEIGHT_COPIES * network.weight_bytes)
    after = apply(trace, planner(trace, device.memory_bytes, device), device)
    at = int(after.held_bytes.argmax())
    tensors = after.tensors
    held = (tensors.born <= at) & (tensors.died >= at) & (tensors.kind == Kind.ACTIVATION)
    own = [i for i in np.flatnonzero(held).tolist() if tensors.label[i].rpartition(" ")[0] == kind.value]
    return Planned(after.seconds, after.peak_bytes, int(tensors.bytes[own].sum()))


def fits(network: Network, planner: Planner | None, device: DeviceSpec) -> bool:
    """Whether a training step of the network fits the device under a planner's plan."""
    trace = live_trace(network, device, _WEIGHT_COPIES * network.weight_bytes)
    if planner is None:
        return trace.peak_bytes <= device.memory_bytes
    try:
        planner(trace, device.memory_bytes, device)
    except CannotFitError:
        return False
    return True


def live_trace(network: Network, device: DeviceSpec, persistent_bytes: int = 0) -> Trace:
    """A network's trace with every tensor released after its last use, as an eager framework does."""
    trace = network_trace(network, device, persistent_bytes)
    return apply(trace, Plan(planner="liveness", gaps=releases(trace)), device)


def _most(fit: Callable[[int], bool]) -> int:
    """The largest count that fits, if all smaller counts fit too; zero if 1 does not fit."""
    if not fit(1):
        return 0
    low, high = 1, 2
    while fit(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low
