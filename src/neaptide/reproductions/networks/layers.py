"""Networks described by their layers, and the traces of their training steps.

Each layer is one forward op and one backward op. `NEEDS` says what a backward op reads (the layer's input, its output)
and whether it writes its gradient in place or to a new tensor, by SuperNeurons' rules. The input batch and the weights
are not part of the pool; pass `persistent_bytes` where weights count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from neaptide.core.device import DeviceSpec
from neaptide.core.traces.columns import Labels, Lists
from neaptide.core.traces.trace import Kind, Ops, Phase, Tensors, Trace
from neaptide.planning.analysis.layer_kinds import LayerKind


@dataclass(frozen=True, slots=True)
class Needs:
    """What the backward op of a layer reads besides the gradient of its output."""

    input: bool
    output: bool
    new_gradient: bool  # otherwise the gradient of the output is overwritten


NEEDS: Mapping[LayerKind, Needs] = MappingProxyType(
    {
        LayerKind.CONVOLUTION: Needs(input=True, output=False, new_gradient=True),
        LayerKind.FULLY_CONNECTED: Needs(input=True, output=False, new_gradient=True),
        LayerKind.ACTIVATION: Needs(input=True, output=True, new_gradient=False),
        LayerKind.NORMALIZATION: Needs(input=True, output=True, new_gradient=False),
        LayerKind.POOLING: Needs(input=True, output=True, new_gradient=True),
        LayerKind.DROPOUT: Needs(input=False, output=False, new_gradient=True),
        LayerKind.SOFTMAX: Needs(input=False, output=True, new_gradient=False),
        LayerKind.JOIN: Needs(input=False, output=False, new_gradient=False),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer. `inputs` are positions of earlier layers; -1 is the input batch."""

    name: str
    kind: LayerKind
    output_bytes: int
    inputs: tuple[int, ...]
    flops: float = 0.0  # of the forward pass
    weight_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Layers in the order they run."""

    name: str
    batch: int
    input_bytes: int
    layers: tuple[Layer, ...]

    @property
    def weight_bytes(self) -> int:
        return sum(layer.weight_bytes for layer in self.layers)


def network_trace(network: Network, device: DeviceSpec, persistent_bytes: int = 0) -> Trace:
    """The trace of a training step with every tensor held to the end: the papers' baseline, before liveness."""
    layers, count = network.layers, len(network.layers)
    n = 2 * count
    sizes, born = [layer.output_bytes for layer in layers], list(range(count))
    reads: list[list[int]] = [[i for i in layer.inputs if i >= 0] for layer in layers]
    writes: list[list[int]] = [[position] for position in range(count)]
    gradients: list[int | None] = [None] * count  # of each layer's output
    for position in range(count - 1, -1, -1):
        layer, needs, op = layers[position], NEEDS[layers[position].kind], n - 1 - position
        given = gradients[position]
        # The backward pass starts at the loss, whose gradient is its own output.
        given = position if given is None else given
        used = [
            given,
            *([position] if needs.output else []),
            *([i for i in layer.inputs if i >= 0] if needs.input else []),
        ]
        made = []
        for source in layer.inputs:
            known = gradients[source] if source >= 0 else None
            if known is not None:
                made.append(known)  # a second branch adds to the same gradient
            elif needs.new_gradient or source != layer.inputs[-1]:  # one of two branches may overwrite the gradient
                made.append(len(sizes))
                sizes.append(layers[source].output_bytes if source >= 0 else network.input_bytes)
                born.append(op)
            else:
                made.append(given)
            if source >= 0:
                gradients[source] = made[-1]
        reads.append(list(dict.fromkeys(used)))
        writes.append(list(dict.fromkeys(made)))
    order = list(range(count - 1, -1, -1))
    if persistent_bytes:
        sizes.append(persistent_bytes)
        born.append(-1)
    seconds = _seconds(network, device)
    made_tensors = len(sizes) - (persistent_bytes > 0)
    moved = np.array([sum(sizes[i] for i in {*r, *w}) for r, w in zip(reads, writes, strict=True)], dtype=np.int64)
    names = [f"layer::{layer.kind.value.replace(' ', '_')}" for layer in layers]
    return Trace(
        name=network.name,
        device=device.name,
        batch=network.batch,
        estimated=True,
        asynchronous=True,
        variation="",
        ops=Ops(
            name=Labels.of([*names, *(names[i] for i in order)]),
            module=Labels.of([*(layer.name for layer in layers), *(layers[i].name for i in order)]),
            phase=np.repeat(np.array([Phase.FORWARD, Phase.BACKWARD], dtype=np.uint8), count),
            seconds=np.array([*seconds, *(2 * seconds[i] for i in order)]),
            host_seconds=np.zeros(n),
            flops=np.array([*(layer.flops for layer in layers), *(2 * layers[i].flops for i in order)]),
            moved_bytes=moved,
            fill=np.ones(n),
            scratch_bytes=np.zeros(n, dtype=np.int64),
            reads=Lists.of(reads),
            writes=Lists.of(writes),
        ),
        tensors=Tensors(
            bytes=np.array(sizes, dtype=np.int64),
            kind=np.array(
                [Kind.ACTIVATION] * count
                + [Kind.TEMPORARY] * (made_tensors - count)
                + [Kind.PARAMETER] * (len(sizes) - made_tensors),
                dtype=np.uint8,
            ),
            label=Labels.of(
                [
                    *(layer.name for layer in layers),
                    *(f"gradient {i}" for i in range(made_tensors - count)),
                    *(["weights"] if persistent_bytes else []),
                ]
            ),
            layout=Labels.of(f"bytes[{size}]" for size in sizes),
            born=np.array(born, dtype=np.int64),
            died=np.array([n - 1] * made_tensors + [n] * (len(sizes) - made_tensors), dtype=np.int64),
            saved=np.array([True] * made_tensors + [False] * (len(sizes) - made_tensors), dtype=np.bool_),
        ),
    )


def _seconds(network: Network, device: DeviceSpec) -> list[float]:
    """The time of each layer: its arithmetic or its memory traffic, whichever takes longer."""
    found = []
    for layer in network.layers:
        read = [network.input_bytes if i < 0 else network.layers[i].output_bytes for i in layer.inputs]
        moved = (layer.output_bytes + layer.weight_bytes + sum(read)) / (device.bandwidth * device.bandwidth_efficiency)
        found.append(max(layer.flops / (device.matrix_flops * device.compute_efficiency), moved, device.kernel_seconds))
    return found
