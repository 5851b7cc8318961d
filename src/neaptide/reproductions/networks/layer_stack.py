"""A builder of networks, layer by layer, that tracks shapes."""

from __future__ import annotations

from collections.abc import Sequence

from neaptide.planning.analysis.layer_kinds import LayerKind
from neaptide.reproductions.networks.layers import Layer, Network


class Stack:
    """A network under construction. A shape is channels and the side of a square; values are float32."""

    def __init__(self, name: str, batch: int, size: int) -> None:
        self._name, self._batch = name, batch
        self._layers: list[Layer] = []
        self._shapes: dict[int, tuple[int, int]] = {-1: (3, size)}  # of images in colour
        self.top = -1

    def convolution(
        self, channels: int, kernel: int, stride: int = 1, padding: int = 0, source: int | None = None
    ) -> int:
        at = self.top if source is None else source
        before, size = self._shapes[at]
        after = (size + 2 * padding - kernel) // stride + 1
        weights = channels * before * kernel * kernel
        return self._add(
            LayerKind.CONVOLUTION, (channels, after), (at,), 2.0 * self._batch * after * after * weights, 4 * weights
        )

    def pooling(self, kernel: int, stride: int, padding: int = 0) -> int:
        channels, size = self._shapes[self.top]
        return self._add(LayerKind.POOLING, (channels, (size + 2 * padding - kernel) // stride + 1), (self.top,))

    def fully_connected(self, features: int) -> int:
        channels, size = self._shapes[self.top]
        weights = channels * size * size * features
        return self._add(
            LayerKind.FULLY_CONNECTED, (features, 1), (self.top,), 2.0 * self._batch * weights, 4 * weights
        )

    def same(self, *kinds: LayerKind) -> int:
        """Add layers that keep the shape."""
        for kind in kinds:
            self._add(kind, self._shapes[self.top], (self.top,))
        return self.top

    def join(self, first: int, second: int) -> int:
        return self._add(LayerKind.JOIN, self._shapes[first], (first, second))

    def network(self) -> Network:
        channels, size = self._shapes[-1]
        return Network(
            name=self._name,
            batch=self._batch,
            input_bytes=4 * self._batch * channels * size * size,
            layers=tuple(self._layers),
        )

    def _add(
        self, kind: LayerKind, shape: tuple[int, int], inputs: Sequence[int], flops: float = 0.0, weight_bytes: int = 0
    ) -> int:
        channels, size = shape
        self.top = len(self._layers)
        self._shapes[self.top] = shape
        self._layers.append(
            Layer(
                name=f"{kind.value} {self.top}",
                kind=kind,
                output_bytes=4 * self._batch * channels * size * size,
                inputs=tuple(inputs),
                flops=flops,
                weight_bytes=weight_bytes,
            )
        )
        return self.top
