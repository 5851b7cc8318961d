"""vDNN (MICRO'16): layers' inputs go to the host during the forward pass and come back in the backward pass.

`all` offloads the inputs of every layer, `conv` those of convolutions only. `dyn`, the default, takes the first that
fits of no offloading, `conv` and `all`. While the backward of one layer runs, the input of the next is copied in. In
the paper every layer waits for its own copy out; here an op waits for a copy out only where memory is short.
"""

from __future__ import annotations

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Flags, Integers
from neaptide.core.traces.trace import Phase, Trace
from neaptide.planning.analysis.bounds import lower_bound
from neaptide.planning.analysis.candidates import candidates
from neaptide.planning.analysis.layer_kinds import LayerKind, kinds_of_ops
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.plan import CannotFitError, Gap, Plan, Return, in_order
from neaptide.planning.search.waits import schedule_with_waits


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """vDNN-dyn."""
    return _first_that_fits(trace, budget_bytes, device, "vdnn", [(), offloads(trace, conv=True), offloads(trace)])


def plan_conv(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """vDNN-conv, whether or not it is needed."""
    return _first_that_fits(trace, budget_bytes, device, "vdnn-conv", [offloads(trace, conv=True)])


def plan_all(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """vDNN-all, whether or not it is needed."""
    return _first_that_fits(trace, budget_bytes, device, "vdnn-all", [offloads(trace)])


def _first_that_fits(
    trace: Trace, budget_bytes: int, device: DeviceSpec, name: str, choices: list[tuple[Gap, ...]]
) -> Plan:
    scheduler, lowest = Scheduler(trace, device), []
    for gaps in choices:
        schedule = schedule_with_waits(scheduler, gaps, budget_bytes)
        lowest.append(schedule.peak_bytes)
        if lowest[-1] <= budget_bytes:
            return Plan(planner=name, gaps=schedule.gaps.gaps())
    raise CannotFitError(name, budget_bytes, min(lowest), lower_bound(trace))


def offloads(trace: Trace, conv: bool = False) -> tuple[Gap, ...]:
    """A swap for each tensor that a layer of the forward pass reads; with `conv`, that a convolution reads."""
    found = candidates(trace)
    read = _read_by_forward(trace, conv)[found.tensor]
    layers = np.unique(found.first_backward[read])
    gaps = []
    for row in np.flatnonzero(read).tolist():
        fetch = max(_before(layers, int(found.first_backward[row])), int(found.last_forward[row]) + 1)
        gaps.append(found.gap(row, Return.SWAP, fetch=fetch))
    return in_order(gaps)


def _read_by_forward(trace: Trace, conv: bool) -> Flags:
    ops = trace.ops
    counted = ops.phase == Phase.FORWARD
    if conv:
        counted = counted & np.array([kind is LayerKind.CONVOLUTION for kind in kinds_of_ops(trace)])
    read = np.zeros(len(trace.tensors), dtype=np.bool_)
    read[ops.reads.items[counted[ops.reads.owners()]]] = True
    return read


def _before(layers: Integers, op: int) -> int:
    """The op at which the previous layer of the backward pass begins; `op` itself if there is none."""
    at = int(np.searchsorted(layers, op)) - 1
    return int(layers[at]) if at >= 0 else op
