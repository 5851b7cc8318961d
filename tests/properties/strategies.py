"""Random valid values of the core, for hypothesis."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from builders import Op, Tensor, make_trace
from neaptide.core.traces.curve import MemoryCurve
from neaptide.core.traces.trace import Kind, Phase, Trace


@st.composite
def curves(draw: st.DrawFn, max_steps: int = 7, unit_ns: int = 1, max_level: int = 9) -> MemoryCurve:
    """A curve of a few short steps, flat and empty ones among them, that starts anywhere near zero."""
    steps = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, max_level)), min_size=1, max_size=max_steps))
    start = draw(st.integers(-12, 12))
    lengths = [length for length, _ in steps]
    return MemoryCurve(unit_ns * (start + np.cumsum([0, *lengths])), np.array([level for _, level in steps]))


_words = st.sampled_from(["aten.mm", "aten.relu", "layer.0", "Größe\n", ""])
_seconds = st.floats(0, 1, allow_subnormal=False)


@st.composite
def traces(draw: st.DrawFn, max_ops: int = 6, max_tensors: int = 6) -> Trace:
    """A trace that is consistent, whatever else it is: each op uses some of the tensors that are alive."""
    n = draw(st.integers(1, max_ops))
    tensors = []
    for _ in range(draw(st.integers(0, max_tensors))):
        kind = draw(st.sampled_from(Kind))
        framework = kind is Kind.FRAMEWORK  # it is there before, during and after, and no op uses it
        born = -1 if framework else draw(st.integers(-1, n - 1))
        tensors.append(
            Tensor(
                bytes=draw(st.integers(0, 1 << 40)),
                born=born,
                died=n if framework else draw(st.integers(born, n)),
                kind=kind,
                label=draw(_words),
                layout=draw(_words),
                saved=draw(st.booleans()),
            )
        )
    ops = []
    for position in range(n):
        alive = [
            index
            for index, row in enumerate(tensors)
            if row.born <= position <= row.died and row.kind is not Kind.FRAMEWORK
        ]
        used = st.lists(st.sampled_from(alive), max_size=3) if alive else st.just([])
        ops.append(
            Op(
                name=draw(_words),
                module=draw(_words),
                phase=draw(st.sampled_from(Phase)),
                seconds=draw(_seconds),
                host_seconds=draw(_seconds),
                flops=draw(st.floats(0, 1e18)),
                moved_bytes=draw(st.integers(0, 1 << 40)),
                fill=draw(st.floats(0, 1)),
                scratch_bytes=draw(st.integers(0, 1 << 30)),
                reads=draw(used),
                writes=draw(used),
            )
        )
    return make_trace(
        ops,
        tensors,
        name=draw(st.text(max_size=5)),
        device=draw(_words),
        batch=draw(st.integers(0, 512)),
        estimated=draw(st.booleans()),
        asynchronous=draw(st.booleans()),
        variation=draw(_words),
    )
