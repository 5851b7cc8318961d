"""Whether a tensor's sign is all that is read of it again, so that one bit per element will do."""

from __future__ import annotations

from neaptide.core.traces.trace import Trace
from neaptide.planning.plan import Gap, Plan, Return

# They read the sign of a ReLU's result, and of a pooling's input nothing but its shape.
_READ_SIGNS = {"aten::threshold_backward", "aten::max_pool2d_with_indices_backward"}


def only_signs_are_read(trace: Trace, plan: Plan, gap: Gap) -> bool:
    """True if every later op that reads the tensor wants its sign alone, those that run again included."""
    owners, items = trace.ops.reads.owners(), trace.ops.reads.items
    readers = owners[items == gap.tensor]
    if not {trace.ops.name[op] for op in readers[readers > gap.after].tolist()} <= _READ_SIGNS:
        return False
    repeated = {other.tensor for other in plan.gaps if other.back is Return.RECOMPUTE}
    writes, written = trace.ops.writes.owners(), trace.ops.writes.items
    makers = {op for op, tensor in zip(writes.tolist(), written.tolist(), strict=True) if tensor in repeated}
    return not any(op in makers for op in readers[readers <= gap.after].tolist())
