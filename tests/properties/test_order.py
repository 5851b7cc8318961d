"""For any trace and any ranks, ops in another order keep every dependency, and the trace stays a trace."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from neaptide.core.traces.trace import Trace
from neaptide.planning.analysis.memory_order import ranks_that_hold_little
from neaptide.planning.costing.order import dependencies, ordered, reordered
from properties.plans import training_traces
from properties.training_steps import training_steps


def conflicts(trace: Trace, first: int, second: int) -> bool:
    """Whether two ops use the same tensor and one of them writes it."""
    read, written = ({*lists[first].tolist()} for lists in (trace.ops.reads, trace.ops.writes))
    other_read, other_written = ({*lists[second].tolist()} for lists in (trace.ops.reads, trace.ops.writes))
    return bool(written & (other_read | other_written) or read & other_written)


@settings(max_examples=30)
@given(trace=training_traces() | training_steps(), data=st.data())
def test_ops_that_use_the_same_tensor_keep_their_order(trace: Trace, data: st.DataObject) -> None:
    count = len(trace.ops)
    ranks = data.draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
    before = dependencies(trace)
    little = ranks_that_hold_little(trace, before).tolist()
    for rank in (ranks, little, list(range(count))):
        order = ordered(trace, before, rank.__getitem__)
        other = reordered(trace, order)
        other.check()
        place = {op: at for at, op in enumerate(order)}
        for second in range(count):
            for first in range(second):
                assert place[first] < place[second] or not conflicts(trace, first, second)
        assert other.ops.phase.tolist() == trace.ops.phase.tolist()
        assert other.persistent_bytes == trace.persistent_bytes
    assert order == tuple(range(count))  # ranks by place give the program's own order
