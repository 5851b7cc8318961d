"""DenseNet-121 (Huang et al., 2016): every layer reads the outputs of all layers before it in its block."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family


def _convolution(channels: int, out: int, kernel: int) -> list[nn.Module]:
    """DenseNet's composite: batch norm, ReLU, convolution."""
    return [
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, out, kernel, padding=kernel // 2, bias=False),
    ]


class Dense(nn.Module):
    """A bottleneck layer whose output is appended to its input."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        layers = [*_convolution(channels, 4 * growth, 1), *_convolution(4 * growth, growth, 3)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([images, self.layers(images)], dim=1)


class DenseNet(nn.Module):
    """A stem, dense blocks with transitions that halve image and channels, and one linear layer."""

    def __init__(self, blocks: tuple[int, ...], growth: int, classes: int) -> None:
        super().__init__()
        channels = 2 * growth
        layers: list[nn.Module] = [
            nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]
        for number, repeats in enumerate(blocks):
            if number > 0:
                layers += [*_convolution(channels, channels // 2, 1), nn.AvgPool2d(2)]
                channels //= 2
            for _ in range(repeats):
                layers.append(Dense(channels, growth))
                channels += growth
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(channels, classes))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores


@family("densenet121")
def densenet(_name: str, scale: Scale) -> Recipe:
    paper = scale == "paper"
    blocks, growth = ((6, 12, 24, 16), 32) if paper else ((2, 3, 6, 4), 4)
    image, classes = (224, 1000) if paper else (64, 10)
    return Recipe(
        module=partial(DenseNet, blocks, growth, classes),
        sample=feed.images(image, classes),
        criterion=feed.cross_entropy,
        batch=64 if paper else 8,
    )
