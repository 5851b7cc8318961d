"""Gist (ISCA'18): what a layer saves for the backward pass stays on the device in a smaller code.

- A ReLU's output of which the backward pass reads only the sign (ReLU -> Pool: the pool's backward pass uses the
  positions of its maxima) is kept as 1 bit per value: lossless.
- A ReLU's output that a convolution's backward pass reads (ReLU -> Conv) is kept sparse: lossless.
- `gist-lossy` also keeps everything else in float32 in half precision from its last forward use on (delayed precision
  reduction): gradients change.

The largest savings come first; only tensors that are idle during an op above the budget are encoded. While a tensor is
decoded, both its code and its values are on the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Phase, Trace
from neaptide.planning.analysis.candidates import candidates
from neaptide.planning.analysis.sign_readers import SIGN_READERS
from neaptide.planning.costing.schedule import Scheduler
from neaptide.planning.plan import CODECS, Gap, Plan, Return, in_order
from neaptide.planning.search.within_budget import plan_within_budget

_RELU = frozenset(f"aten::{name}" for name in ("relu", "relu_", "threshold", "threshold_"))
_CONVOLUTIONS = frozenset({"aten::convolution_backward", "aten::convolution_backward_overrideable"})


def plan(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """Lossless codes only."""
    return plan_within_budget("gist", Scheduler(trace, device), budget_bytes, partial(_encoded, trace, False))


def plan_lossy(trace: Trace, budget_bytes: int, device: DeviceSpec) -> Plan:
    """Reduced precision, too: gradients change."""
    return plan_within_budget("gist-lossy", Scheduler(trace, device), budget_bytes, partial(_encoded, trace, True))


def encode_all(trace: Trace, lossy: bool) -> Plan:
    """The plan that encodes every tensor that has a codec, whatever the budget."""
    (gaps,) = _encoded(trace, lossy, 0)
    return Plan(planner="gist-lossy" if lossy else "gist", gaps=tuple(gaps))


def saved_bytes(trace: Trace, lossy: bool) -> tuple[int, int]:
    """The bytes that the forward pass leaves for the backward pass, plain and encoded."""
    known, codec_of = candidates(trace), codecs(trace, lossy)
    shares = [CODECS[codec_of[tensor]].ratio if tensor in codec_of else 1.0 for tensor in known.tensor.tolist()]
    return int(known.bytes.sum()), int((known.bytes * np.array(shares)).sum())


def codecs(trace: Trace, lossy: bool) -> dict[int, str]:
    """The codec of each tensor that has one."""
    last_writer: dict[int, str] = {}
    readers: dict[int, set[str]] = {}
    for op in range(len(trace.ops)):
        name = trace.ops.name[op]
        if trace.ops.phase[op] == Phase.FORWARD:
            last_writer.update(dict.fromkeys(trace.ops.writes[op].tolist(), name))
        elif trace.ops.phase[op] == Phase.BACKWARD:
            for tensor in trace.ops.reads[op].tolist():
                readers.setdefault(tensor, set()).add(name)
    found = {}
    for tensor in candidates(trace).tensor.tolist():
        if last_writer.get(tensor) in _RELU and readers.get(tensor, set()) <= SIGN_READERS:
            found[tensor] = "bit"
        elif last_writer.get(tensor) in _RELU and readers.get(tensor, set()) & _CONVOLUTIONS:
            found[tensor] = "sparse"
        elif lossy and trace.tensors.layout[tensor].startswith("float32"):
            found[tensor] = "half"
    return found


def _encoded(trace: Trace, lossy: bool, target_bytes: int) -> Iterator[Sequence[Gap]]:
    known, codec_of = candidates(trace), codecs(trace, lossy)
    saved = np.array(
        [
            size * (1 - CODECS[codec_of[tensor]].ratio) if tensor in codec_of else 0.0
            for tensor, size in zip(known.tensor.tolist(), known.bytes.tolist(), strict=True)
        ]
    )
    held = trace.held_bytes.astype(np.float64)
    gaps = []
    for index in np.argsort(-saved, kind="stable").tolist():
        away = slice(int(known.last_forward[index]) + 1, int(known.first_backward[index]))
        if saved[index] > 0 and (held[away] > target_bytes).any():
            held[away] -= saved[index]
            gaps.append(known.gap(index, Return.DECODE, codec=codec_of[int(known.tensor[index])]))
    yield in_order(gaps)
