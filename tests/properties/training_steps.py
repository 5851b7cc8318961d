"""Random training steps whose backward pass visits the layers in reverse, so that tensors lie idle between passes."""

from __future__ import annotations

from hypothesis import strategies as st

from builders import Op, Tensor, make_trace
from neaptide.core.traces.trace import Kind, Phase, Trace

# The kinds of layers, and the names of their backward ops.
_LAYERS = {
    "aten::mm": "aten::mm",
    "aten::tanh": "aten::tanh_backward",
    "aten::relu": "aten::threshold_backward",
    "aten::convolution": "aten::convolution_backward",
    "aten::native_dropout": "aten::native_dropout_backward",
}


@st.composite
def training_steps(draw: st.DrawFn, min_layers: int = 3, max_layers: int = 9) -> Trace:
    """Layers with skips, some in place, some whose result dies at once; then their backward ops in reverse."""
    count = draw(st.integers(min_layers, max_layers))
    layers: list[tuple[str, list[int], int]] = []  # name, what it reads, what it writes
    made = 0
    for _ in range(count):
        name = draw(st.sampled_from(sorted(_LAYERS)))
        reads = [layers[-1][2]] if layers else []
        if len(layers) > 1 and draw(st.integers(0, 3)) == 0:
            reads.append(draw(st.sampled_from(layers))[2])
        in_place = bool(layers) and name == "aten::relu" and draw(st.booleans())
        layers.append((name + "_" * in_place, reads, layers[-1][2] if in_place else made))
        made += not in_place
    seconds = st.sampled_from([0.25, 0.5, 1.0, 3.0])
    ops = [Op(name=name, seconds=draw(seconds), reads=reads, writes=(out,)) for name, reads, out in layers]
    gradients: list[int] = []
    for name, reads, out in reversed(layers):
        saved = draw(st.sampled_from([[out], [out], reads, [out, *reads], []]))
        gradient = made + len(gradients)
        used = [*saved, *gradients[-1:]]
        backward = _LAYERS[name.removesuffix("_")]
        ops.append(Op(name=backward, phase=Phase.BACKWARD, seconds=draw(seconds), reads=used, writes=(gradient,)))
        gradients.append(gradient)
    touched: dict[int, list[int]] = {}
    for position, op in enumerate(ops):
        for tensor in (*op.reads, *op.writes):
            touched.setdefault(tensor, []).append(position)
    tensors = [
        Tensor(
            bytes=draw(st.integers(4, 40)) if tensor < made else draw(st.integers(1, 6)),
            born=min(touched[tensor]),
            died=max(touched[tensor]),
            kind=Kind.ACTIVATION if tensor < made and max(touched[tensor]) >= count else Kind.TEMPORARY,
            saved=tensor < made,
        )
        for tensor in range(made + count)
    ]
    return make_trace(ops, tensors, asynchronous=draw(st.booleans()))
