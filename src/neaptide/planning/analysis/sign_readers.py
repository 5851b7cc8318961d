"""Whether later ops read only the sign of a tensor, so that a code of one bit per element is enough."""

from __future__ import annotations

from neaptide.core.traces.trace import Trace
from neaptide.planning.plan import Gap, Plan, Return

# The backward of a ReLU reads the sign of the ReLU's result; that of a max pooling reads only the shape of its input.
SIGN_READERS = frozenset(
    {
        "aten::threshold_backward",
        "aten::max_pool2d_with_indices_backward",
        "aten::max_pool3d_with_indices_backward",
    }
)


def only_signs_are_read(trace: Trace, plan: Plan, gap: Gap) -> bool:
    """Whether every op after the gap's beginning that reads the tensor, reruns included, reads only its sign."""
    owners, items = trace.ops.reads.owners(), trace.ops.reads.items
    readers = owners[items == gap.tensor]
    if not {trace.ops.name[op] for op in readers[readers > gap.after].tolist()} <= SIGN_READERS:
        return False
    recomputed = {other.tensor for other in plan.gaps if other.back is Return.RECOMPUTE}
    writes, written = trace.ops.writes.owners(), trace.ops.writes.items
    makers = {op for op, tensor in zip(writes.tolist(), written.tolist(), strict=True) if tensor in recomputed}
    return not any(op in makers for op in readers[readers <= gap.after].tolist())
