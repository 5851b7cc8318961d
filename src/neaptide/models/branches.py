"""Networks written as tables, as the Inception papers print them: rows of layers that split and join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution and its ReLU; `valid` leaves the image unpadded."""

    out: int
    kernel: int | tuple[int, int] = 1
    stride: int = 1
    valid: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """Rows of layers that read the same input; their outputs are joined along the channels."""

    rows: tuple[Row, ...]


# A layer that keeps the number of channels is given as what makes it.
Layer = Convolution | Split | Callable[[], nn.Module]
Row = tuple[Layer, ...]

AVERAGE: Layer = partial(nn.AvgPool2d, 3, stride=1, padding=1, count_include_pad=False)
HALVE: Layer = partial(nn.MaxPool2d, 3, stride=2)


def split(*rows: Row) -> Split:
    """A split, written without the inner brackets."""
    return Split(rows)


class Branches(nn.Module):
    """Runs modules on one input and joins their outputs along the channels."""

    def __init__(self, branches: list[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([branch(images) for branch in self.branches], dim=1)


def assemble(row: Row, channels: int, shrink: int = 1, normalise: bool = True) -> tuple[nn.Sequential, int]:
    """Make a row's modules for an input of `channels`; also returns the channels that come out.

    Every convolution's channels are divided by `shrink`; `normalise` gives it a batch norm for its bias.
    """
    layers: list[nn.Module] = []
    for layer in row:
        if isinstance(layer, Convolution):
            out = max(layer.out // shrink, 1)
            layers += _convolution(layer, channels, out, normalise)
            channels = out
        elif isinstance(layer, Split):
            parts = [assemble(inner, channels, shrink, normalise) for inner in layer.rows]
            layers.append(Branches([module for module, _ in parts]))
            channels = sum(out for _, out in parts)
        else:
            layers.append(layer())
    return nn.Sequential(*layers), channels


def _convolution(layer: Convolution, channels: int, out: int, normalise: bool) -> list[nn.Module]:
    tall, wide = (layer.kernel, layer.kernel) if isinstance(layer.kernel, int) else layer.kernel
    padding = (0, 0) if layer.valid else (tall // 2, wide // 2)
    convolution = nn.Conv2d(channels, out, (tall, wide), layer.stride, padding, bias=not normalise)
    norm = [nn.BatchNorm2d(out, eps=0.001)] if normalise else []
    return [convolution, *norm, nn.ReLU(inplace=True)]
