"""MobileNet-v2 (Sandler et al., 2018, table 2): inverted residuals with linear bottlenecks."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from neaptide.models import feed
from neaptide.models.zoo import Recipe, Scale, family

# Expansion, channels, repeats, stride of each row of table 2.
ROWS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _convolution(channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU6(inplace=True),
    ]


class InvertedResidual(nn.Module):
    """Widen, convolve each channel, narrow; the input is added where the shape stays."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        layers = _convolution(channels, wide, 1) if expansion > 1 else []
        layers += _convolution(wide, wide, 3, stride, groups=wide)
        layers += _convolution(wide, out, 1)[:-1]  # the bottleneck is linear
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == out

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.layers(images)
        return images + result if self.residual else result


class MobileNet(nn.Module):
    """A stem, inverted residuals, a 1x1 convolution and one linear layer."""

    def __init__(self, shrink: int, classes: int) -> None:
        super().__init__()
        channels, last = 32 // shrink, 1280 // shrink
        layers = _convolution(3, channels, 3, stride=2)
        for expansion, width, repeats, first_stride in ROWS:
            for position in range(repeats):
                stride = first_stride if position == 0 else 1
                layers.append(InvertedResidual(channels, width // shrink, expansion, stride))
                channels = width // shrink
        self.features = nn.Sequential(*layers, *_convolution(channels, last, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.pool(self.features(images)))
        return scores


@family("mobilenet-v2")
def mobilenet(_name: str, scale: Scale) -> Recipe:
    shrink, image, classes = (1, 224, 1000) if scale == "paper" else (8, 64, 10)
    return Recipe(
        module=partial(MobileNet, shrink, classes),
        sample=feed.images(image, classes),
        criterion=feed.cross_entropy,
        batch=96 if scale == "paper" else 8,
    )
