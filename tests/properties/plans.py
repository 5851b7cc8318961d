"""Random training traces and random plans of them, for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

from builders import Op, Tensor, make_trace
from neaptide.core.device import DeviceSpec
from neaptide.core.traces.trace import Kind, Phase, Trace
from neaptide.planning.plan import CODECS, Gap, Plan, Return

DEVICE = DeviceSpec(
    name="slow link",
    memory_bytes=1000,
    sms=1,
    flops=1.0,
    matrix_flops=1.0,
    half_flops=1.0,
    bandwidth=100.0,
    link_bandwidth=8.0,
)


@st.composite
def training_traces(draw: st.DrawFn, max_layers: int = 6) -> Trace:
    """A chain of layers with skips, some in place, each with a backward op; times and sizes are random."""
    count = draw(st.integers(2, max_layers))
    outputs: list[int] = []  # the tensor that each layer writes
    rows: list[tuple[list[int], list[int]]] = []
    born: dict[int, int] = {}
    for layer in range(count):
        reads = [outputs[-1]] if outputs else []
        if len(outputs) > 1 and draw(st.booleans()):
            reads.append(draw(st.sampled_from(outputs)))
        if outputs and draw(st.integers(0, 3)) == 0:
            written = outputs[-1]  # in place
        else:
            written = len(born)
            born[written] = layer
        rows.append((reads, [written]))
        outputs.append(written)
    backward = [draw(st.lists(st.sampled_from(outputs), max_size=2)) for _ in range(count)]
    n = 2 * count
    last: dict[int, int] = {}
    for position, (reads, writes) in enumerate([*rows, *((used, []) for used in backward)]):
        for tensor in (*reads, *writes):
            last[tensor] = position
    seconds = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    ops = [
        Op(
            name="aten::bernoulli_" if draw(st.integers(0, 9)) == 0 else "aten::mm",
            phase=Phase.FORWARD if position < count else Phase.BACKWARD,
            seconds=draw(seconds),
            host_seconds=draw(st.sampled_from([0.0, 0.25])),
            scratch_bytes=draw(st.integers(0, 3)),
            reads=reads,
            writes=writes,
        )
        for position, (reads, writes) in enumerate([*rows, *((used, []) for used in backward)])
    ]
    tensors = [
        Tensor(
            bytes=draw(st.integers(1, 20)),
            born=born[tensor],
            died=draw(st.integers(last[tensor], n)) if draw(st.booleans()) else last[tensor],
            kind=Kind.ACTIVATION,
            saved=True,
        )
        for tensor in sorted(born)
    ]
    return make_trace(ops, tensors, asynchronous=draw(st.booleans()))


@st.composite
def any_plans(draw: st.DrawFn, trace: Trace, ways: Sequence[Return] = tuple(Return)) -> Plan:
    """Gaps between uses of tensors, and sometimes anywhere; together they may or may not be a valid plan."""
    n, gaps = len(trace.ops), []
    anywhere = draw(st.integers(0, 4)) == 0
    for tensor in range(len(trace.tensors)):
        used = [op for op in range(n) if tensor in trace.ops.reads[op] or tensor in trace.ops.writes[op]]
        places = list(pairwise([*used, n]))
        if anywhere:
            places = [(draw(st.integers(0, n - 1)), draw(st.integers(1, n + 1)))]
        for after, before in places:
            back = draw(st.sampled_from([None, *ways]))
            if back is None or after + 1 > before:
                continue
            fetch = draw(st.none() | st.integers(after + 1, before)) if back is Return.SWAP else None
            codec = draw(st.sampled_from(sorted(CODECS))) if back is Return.DECODE else None
            gaps.append(Gap(tensor=tensor, after=after, before=before, back=back, fetch=fetch, codec=codec))
    return Plan(planner="any", gaps=tuple(gaps))
