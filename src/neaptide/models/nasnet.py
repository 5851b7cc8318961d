"""NASNet-A (Zoph et al., 2017): cells found by search, each reading the two cells before it.

The auxiliary head and scheduled drop-path are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family


@dataclass(frozen=True, slots=True)
class Shape:
    """What tells NASNet-A's sizes apart.

    With `skip`, the cell after a reduction reads past the reduction's input to the cell before that.
    """

    stem: int
    width: int
    repeats: int
    skip: bool
    image: int


SHAPES: dict[tuple[str, Scale], Shape] = {
    ("nasnet-mobile", "paper"): Shape(stem=32, width=44, repeats=4, skip=False, image=224),
    ("nasnet-large", "paper"): Shape(stem=96, width=168, repeats=6, skip=True, image=331),
    ("nasnet-mobile", "tiny"): Shape(stem=4, width=8, repeats=1, skip=False, image=64),
    ("nasnet-large", "tiny"): Shape(stem=8, width=12, repeats=2, skip=True, image=64),
}


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=0.001)


def _squeeze(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), nn.Conv2d(channels, out, 1, bias=False), _norm(out))


def _separable(channels: int, out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """ReLU, depthwise, pointwise, norm: twice, as the paper has it; the first one strides."""
    layers: list[nn.Module] = []
    for before, step in ((channels, stride), (out, 1)):
        layers += [
            nn.ReLU(),
            nn.Conv2d(before, before, kernel, step, padding=kernel // 2, groups=before, bias=False),
            nn.Conv2d(before, out, 1, bias=False),
            _norm(out),
        ]
    return nn.Sequential(*layers)


def _average(stride: int = 1) -> nn.AvgPool2d:
    return nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)


class Halve(nn.Module):
    """Halves an image without loss of phase: two 1x1 convolutions on grids one pixel apart."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.even = nn.Conv2d(channels, out // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(channels, out - out // 2, 1, stride=2, bias=False)
        self.norm = _norm(out)

    def forward(self, images: Tensor) -> Tensor:
        active = F.relu(images)
        shifted = F.pad(active, (-1, 1, -1, 1))
        halved: Tensor = self.norm(torch.cat([self.even(active), self.odd(shifted)], dim=1))
        return halved


class NormalCell(nn.Module):
    """Figure 4, left: keeps the image's size and gives six times `width` channels."""

    def __init__(self, previous: int, channels: int, width: int, halve: bool) -> None:
        super().__init__()
        self.adapt = Halve(previous, width) if halve else _squeeze(previous, width)
        self.squeeze = _squeeze(channels, width)
        self.left5, self.left3 = _separable(width, width, 5), _separable(width, width, 3)
        self.right5, self.right3 = _separable(width, width, 5), _separable(width, width, 3)
        self.last3 = _separable(width, width, 3)
        self.average = _average()
        self.out = 6 * width

    def forward(self, previous: Tensor, current: Tensor) -> Tensor:
        old, new = self.adapt(previous), self.squeeze(current)
        sums = [
            self.left5(new) + self.left3(old),
            self.right5(old) + self.right3(old),
            self.average(new) + old,
            self.average(old) + self.average(old),
            self.last3(new) + new,
        ]
        return torch.cat([old, *sums], dim=1)


class ReductionCell(nn.Module):
    """Figure 4, right: halves the image and gives four times `width` channels.

    The first cell has only one input and takes it raw as the previous one (`adapt` is then the identity).
    """

    def __init__(self, adapt: nn.Module, adapted: int, channels: int, width: int) -> None:
        super().__init__()
        self.adapt = adapt
        self.squeeze = _squeeze(channels, width)
        self.new5 = _separable(width, width, 5, 2)
        self.first7, self.second7 = _separable(adapted, width, 7, 2), _separable(adapted, width, 7, 2)
        self.old5 = _separable(adapted, width, 5, 2)
        self.last3 = _separable(width, width, 3)
        self.most = nn.MaxPool2d(3, stride=2, padding=1)
        self.average, self.average_halved = _average(), _average(2)
        self.out = 4 * width

    def forward(self, previous: Tensor, current: Tensor) -> Tensor:
        old, new = self.adapt(previous), self.squeeze(current)
        first = self.new5(new) + self.first7(old)
        second = self.most(new) + self.second7(old)
        third = self.average_halved(new) + self.old5(old)
        fourth = self.average(first) + second
        fifth = self.last3(first) + self.most(new)
        return torch.cat([second, third, fourth, fifth], dim=1)


class NASNet(nn.Module):
    """A stem of two reduction cells, then three stages of normal cells with reduction cells between."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.skip = shape.skip
        self.stem = nn.Sequential(nn.Conv2d(3, shape.stem, 3, stride=2, bias=False), _norm(shape.stem))
        half, quarter = shape.width // 2, shape.width // 4
        first = ReductionCell(nn.Identity(), shape.stem, shape.stem, quarter)
        second = ReductionCell(Halve(shape.stem, half), half, first.out, half)
        self.stem_cells = nn.ModuleList([first, second])
        self.stages = nn.ModuleList()
        self.reductions = nn.ModuleList()
        previous, channels = first.out, second.out
        for stage in range(3):
            width = shape.width * 2**stage
            if stage > 0:
                reduction = ReductionCell(_squeeze(previous, width), width, channels, width)
                self.reductions.append(reduction)
                previous, channels = (previous if shape.skip else channels), reduction.out
            cells = nn.ModuleList()
            for position in range(shape.repeats):
                cell = NormalCell(previous, channels, width, halve=position == 0)
                previous, channels = channels, cell.out
                cells.append(cell)
            self.stages.append(cells)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(channels, classes))

    def forward(self, images: Tensor) -> Tensor:
        stem = self.stem(images)
        previous = self.stem_cells[0](stem, stem)
        current = self.stem_cells[1](stem, previous)
        for number, stage in enumerate(self.stages):
            if number > 0:
                reduced = self.reductions[number - 1](previous, current)
                previous, current = (previous if self.skip else current), reduced
            for cell in stage.children():
                previous, current = current, cell(previous, current)
        scores: Tensor = self.classifier(self.pool(F.relu(current)))
        return scores


@family("nasnet-mobile", "nasnet-large")
def nasnet(name: str, scale: Scale) -> Recipe:
    shape = SHAPES[name, scale]
    classes, batch = (1000, 32) if scale == "paper" else (10, 4)
    return Recipe(
        module=partial(NASNet, shape, classes),
        sample=feed.images(shape.image, classes),
        criterion=feed.cross_entropy,
        batch=batch,
    )
